"""A real OCI registry of this machine: Debian's, unpacked, not installed, on a port of its own."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import bcrypt
import pytest

PROGRAM = "docker-registry"
USER, PASSWORD = "alice", "correct horse"
_LISTENS = re.compile(rb'listening on 127\.0\.0\.1:(\d+)"')


def program(cache: Path) -> Path:
    """Installed, or in the cache, or fetched by apt; where all that fails the test is skipped."""
    kept = cache / PROGRAM
    if found := shutil.which(PROGRAM):
        return Path(found)
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            steps = (["apt-get", "download", PROGRAM], ["sh", "-c", "dpkg -x *.deb ."])
            for step in steps:
                done = subprocess.run(step, cwd=scratch, capture_output=True, check=False)
                if done.returncode:
                    pytest.skip(f"there is no {PROGRAM}: {done.stderr.decode()[-200:]}")
            (Path(scratch) / "usr" / "bin" / PROGRAM).replace(kept)
    return kept


@contextmanager
def serving(program: Path, folder: Path, *auth: str) -> Iterator[str]:
    """Its `HOST:PORT`. `auth`: lines of its configuration."""
    folder.mkdir(exist_ok=True)
    lines = [
        "version: 0.1",
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}",
        'http: {addr: "127.0.0.1:0", secret: kept}',
        *auth,
    ]
    (folder / "config.yml").write_text("\n".join(lines))
    with subprocess.Popen(
        [program, "serve", folder / "config.yml"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr, "it was asked for"
        try:
            port = next(found[1] for line in process.stderr if (found := _LISTENS.search(line)))
            said = process.stderr  # read on, or it would stop when the pipe is full
            threading.Thread(target=lambda: [None for _ in said], daemon=True).start()
            yield f"127.0.0.1:{port.decode()}"
        finally:
            process.kill()


def password_file(folder: Path) -> str:
    """The configuration's line that asks for USER and PASSWORD."""
    folder.mkdir(exist_ok=True)
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "users").write_text(f"{USER}:{hashed}\n")
    return f"auth: {{htpasswd: {{realm: tests, path: {folder}/users}}}}"


class Cutting:
    """A way to a registry that breaks once, after so many bytes in one direction."""

    def __init__(self, target: str, *, up: int | None = None, down: int | None = None) -> None:
        host, port = target.split(":")
        self._target, self._left = (host, int(port)), {"up": up, "down": down}
        self.carried = {"up": 0, "down": 0}
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Cutting:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in accept
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            for way, ends in (("up", (near, far)), ("down", (far, near))):
                self._threads.append(threading.Thread(target=self._carry, args=(way, *ends)))
                self._threads[-1].start()

    def _carry(self, way: str, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 14):
                if self._breaks(way, len(data)):
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):  # the other direction has ended it
                end.shutdown(socket.SHUT_RDWR)
        source.close()

    def _breaks(self, way: str, length: int) -> bool:
        with self._lock:
            self.carried[way] += length
            left = self._left[way]
            if left is None:
                return False
            self._left[way] = left - length if left > length else None
            return left <= length
