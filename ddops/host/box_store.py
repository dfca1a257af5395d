"""Sent to a box as text: keeps the files of an environment that is on its way, and assembles it.

`python3 -c TEXT VERB STAGE …`, on any Python 3.9 or newer. In STAGE lies each file by its sha256:
whole, or as `.part` with a `.have` that lists the pieces which have come. A kill loses at most the
pieces in flight; nothing is trusted before its digest was computed here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

NOTE = ".ddops-environment.json"
SHARED = 1 << 20  # bytes: from here on a file is shared between environments by a hard link
_CHUNK = 1 << 20  # bytes
_SILENCE_S = 60  # of the sender, then it counts as lost


def lacks(stage: Path, environments: Path) -> None:
    """Of [[sha256, size]…] and the digests not to be trusted: the parts of files still to come."""
    asked = json.load(sys.stdin)
    there = donors(environments, set(asked["distrusted"]))
    missing = []
    for sha256, size in asked["files"]:
        if not size or sha256 in there or whole(stage, sha256, size):
            continue
        left = gaps(size, had(stage, sha256))
        missing += [[sha256, left]] if left else []
    sys.stdout.write(json.dumps(missing))


def donors(environments: Path, distrusted: set[str]) -> dict[str, str]:
    """sha256 → a file of an environment that is here already, unchanged since it was proven."""
    found = {}
    for note in environments.glob(f"*/{NOTE}"):
        top = note.parent
        for file in json.loads(note.read_text("utf-8"))["files"]:
            path = top / file["path"]
            if file["sha256"] not in distrusted and unchanged(path, file):
                found[file["sha256"]] = str(path)
    return found


def unchanged(path: Path, file: dict[str, Any]) -> bool:
    try:
        now = path.stat()
    except OSError:
        return False
    return bool((now.st_size, now.st_mtime_ns) == (file["size"], file["mtime_ns"]))


def whole(stage: Path, sha256: str, size: int) -> bool:
    path = stage / sha256
    return path.exists() and path.stat().st_size == size


def had(stage: Path, sha256: str) -> list[tuple[int, int]]:
    try:
        lines = (stage / f"{sha256}.have").read_text("utf-8").split("\n")[:-1]
    except OSError:
        return []
    return sorted((int(line.split()[0]), int(line.split()[1])) for line in lines)


def gaps(size: int, have: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """[(offset, length)…] that no piece has covered."""
    found, at = [], 0
    for offset, length in have:
        if offset > at:
            found.append((at, offset - at))
        at = max(at, offset + length)
    return [*found, (at, size - at)] if at < size else found


def receive(stage: Path, codec: str) -> None:
    """Pieces as `box_pack` writes them; prints the length of each one that is safe."""
    stage.mkdir(parents=True, exist_ok=True)
    source: IO[bytes] = sys.stdin.buffer
    unpacker: subprocess.Popen[bytes] | None = None

    def give_up(number: int, frame: object) -> None:
        if unpacker is not None:
            unpacker.kill()  # it would wait for the lost sender
        os._exit(1)

    signal.signal(signal.SIGALRM, give_up)
    if codec == "zstd":
        line = ("zstd", "-d", "-q", "-c")
        unpacker = subprocess.Popen(line, stdin=source, stdout=subprocess.PIPE)
        assert unpacker.stdout is not None, "stdout is a pipe"
        source = unpacker.stdout
    while True:
        signal.alarm(_SILENCE_S)
        head = source.readline()
        if head == b"\n":
            return
        if not head.endswith(b"\n"):
            sys.exit("the stream broke")
        keep(stage, source, *json.loads(head))


def keep(stage: Path, source: IO[bytes], sha256: str, size: int, offset: int, length: int) -> None:
    single = length == size
    part = stage / (f"{sha256}.{os.getpid()}" if single else f"{sha256}.part")
    digest = hashlib.sha256()
    handle = os.open(part, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        at = offset
        while at < offset + length:
            signal.alarm(_SILENCE_S)
            data = source.read(min(_CHUNK, offset + length - at))
            if not data:
                sys.exit("the stream broke")
            os.pwrite(handle, data, at)
            digest.update(data)
            at += len(data)
        if single and digest.hexdigest() != sha256:
            return  # it has changed since it was looked at
        if single:
            part.replace(stage / sha256)
        else:
            with (stage / f"{sha256}.have").open("a") as journal:
                journal.write(f"{offset} {length}\n")
    finally:
        os.close(handle)
        if single and part.exists():
            part.unlink()
    sys.stdout.write(f"{length}\n")
    sys.stdout.flush()


def assemble(stage: Path, environment: Path) -> None:
    """Build the folder from what is here. Prints the digests of files that are not what they say.

    `files` are [path, sha256, size, mode, mtime_ns]; `texts` replace the content of files;
    `rpaths` are [path, old, new], the new one not longer than the old one.
    """
    orders = json.load(sys.stdin)
    there = donors(environment.parent, set(orders["distrusted"]))
    environment.mkdir(parents=True, exist_ok=True)
    texts = orders["texts"]

    def place(file: list[Any]) -> str | None:
        path, sha256, _, mode, mtime_ns = file
        target = environment / path
        if path in texts:
            write(target, texts[path].encode())
        elif not content(stage, there, target, file):
            return str(sha256)
        os.chmod(target, mode)
        os.utime(target, ns=(mtime_ns, mtime_ns))
        return None

    for folder in sorted({os.path.dirname(file[0]) for file in orders["files"]}):
        (environment / folder).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(min(16, (os.cpu_count() or 1) + 2)) as pool:
        bad = [sha256 for sha256 in pool.map(place, orders["files"]) if sha256]
    for path, target in orders["links"]:
        link = environment / path
        link.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(link):
            link.unlink()
        link.symlink_to(target)
    rpaths = [] if bad else orders["rpaths"]
    changed = {path: turn(environment / path, old, new) for path, old, new in rpaths}
    sys.stdout.write(json.dumps({"bad": bad, "changed": changed}))


def content(stage: Path, there: dict[str, str], target: Path, file: list[Any]) -> bool:
    """Link or copy the file to its place, then compute its digest there."""
    _, sha256, size, mode, mtime_ns = file
    donor, own = there.get(sha256), stage / sha256
    source = Path(donor) if donor else own if own.exists() else stage / f"{sha256}.part"
    if target.exists():
        target.unlink()  # of a run that was cut short
    if not size:
        target.write_bytes(b"")
        return True
    if not source.exists():
        return False
    now = source.stat()
    alike = (now.st_mode & 0o7777, now.st_mtime_ns) == (mode, mtime_ns)
    if size >= SHARED and (alike if donor else now.st_nlink == 1):
        os.link(source, target)
    else:
        shutil.copyfile(source, target)
    bytecode(source, target, alike=alike and donor is not None)
    if digest(target) == sha256:
        return True
    target.unlink()
    if not donor:
        discard(stage, sha256)
    return False


def bytecode(source: Path, target: Path, *, alike: bool) -> None:
    """What was compiled for a file that has not changed is good for its copy too."""
    if not alike or target.suffix != ".py":
        return
    for made in source.parent.glob(f"__pycache__/{target.stem}.*.pyc"):
        folder = target.parent / "__pycache__"
        folder.mkdir(exist_ok=True)
        if not (folder / made.name).exists():
            os.link(made, folder / made.name)


def discard(stage: Path, sha256: str) -> None:
    for name in (sha256, f"{sha256}.part", f"{sha256}.have"):
        if (stage / name).exists():
            (stage / name).unlink()


def digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            found.update(chunk)
    return found.hexdigest()


def write(target: Path, data: bytes) -> None:
    if target.exists():
        target.unlink()  # it may be shared
    target.write_bytes(data)


def turn(path: Path, old: str, new: str) -> str:
    """Put another rpath in the place of the old one; the file's new digest."""
    stat, data = path.stat(), path.read_bytes()
    before = os.fsencode(old) + b"\0"
    write(path, data.replace(before, os.fsencode(new).ljust(len(before) - 1, b"\0") + b"\0"))
    os.chmod(path, stat.st_mode & 0o7777)
    os.utime(path, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    return digest(path)


def main(verb: str, stage: Path, rest: list[str]) -> None:
    if verb == "lacks":
        lacks(stage, Path(rest[0]))
    elif verb == "receive":
        receive(stage, rest[0])
    else:
        assemble(stage, Path(rest[0]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
