"""Sent to a machine as text: write pieces of files to standard output, one behind the other.

`python3 -c TEXT CODEC`; the first line of standard input is a JSON list of
[path, sha256, size, offset, length]. Whoever wanted them keeps standard input open: when it
ends, nobody waits any more, and so does this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import IO, Any

_CHUNK = 1 << 20  # bytes
CHANGED = 93


def main(codec: str) -> None:
    pieces = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=leave_with_the_caller, daemon=True).start()
    packer = None
    out: IO[bytes] = sys.stdout.buffer
    if codec == "zstd":
        line = ("zstd", "-3", "-T1", "-q", "-c")
        packer = subprocess.Popen(line, stdin=subprocess.PIPE)
        assert packer.stdin is not None, "stdin is a pipe"
        out = packer.stdin
    whole = [send(out, piece) for piece in pieces]
    out.write(b"\n")  # an empty header: the end was reached
    out.flush()
    code = 0
    if packer is not None:
        out.close()
        code = packer.wait()
    sys.exit(code or (0 if all(whole) else CHANGED))


def leave_with_the_caller() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)  # zstd reads the end of its input, and ends too


def send(out: IO[bytes], piece: list[Any]) -> bool:
    """False: the file is another one by now, and was left out."""
    path, sha256, size, offset, length = piece
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size != size:
                raise OSError("it has another size")
            out.write(json.dumps([sha256, size, offset, length]).encode() + b"\n")
            file.seek(offset)
            copy(file, out, length)
    except OSError as error:
        sys.stderr.write(f"{path} has changed since it was looked at: {error}\n")
        return False
    return True


def copy(file: IO[bytes], out: IO[bytes], length: int) -> None:
    """Missing bytes are made up: the digest will tell, and the stream stays whole."""
    while length:
        data = file.read(min(length, _CHUNK)) or bytes(min(length, _CHUNK))
        out.write(data)
        length -= len(data)


if __name__ == "__main__":
    main(sys.argv[1])
