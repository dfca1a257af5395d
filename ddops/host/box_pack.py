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
    for piece in pieces:
        send(out, piece)
    out.write(b"\n")  # an empty header: the end was reached
    out.flush()
    if packer is not None:
        out.close()
        sys.exit(packer.wait())


def leave_with_the_caller() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)  # zstd reads the end of its input, and ends too


def send(out: IO[bytes], piece: list[Any]) -> None:
    path, sha256, size, offset, length = piece
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size != size:
            sys.stderr.write(f"{path} has changed since it was looked at\n")
            os._exit(CHANGED)
        out.write(json.dumps([sha256, size, offset, length]).encode() + b"\n")
        file.seek(offset)
        while length:
            data = file.read(min(length, _CHUNK))
            out.write(data)
            length -= len(data)


if __name__ == "__main__":
    main(sys.argv[1])
