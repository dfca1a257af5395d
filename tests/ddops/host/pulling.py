"""A hub and its store on this machine, and a folder that their files are pulled to."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ddops.host.local import Local
from ddops.spec.command import Pull
from ddops.spec.observed import Offered
from tests.ddops.host.ranged import Files, serve
from tests.ddops.sources import COMMIT, Hub, git_digest, is_large, serve_hub, sha256

MB = 1 << 20
BIG = random.Random(7).randbytes(4 * MB)
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model-1.safetensors": BIG,
    "sub/model-2.safetensors": BIG[::-1],
}


@dataclass
class World:
    hub: Hub
    store: Files
    folder: Path
    told: list[tuple[float, float | None]] = field(default_factory=list)

    @property
    def command(self) -> Pull:
        return Pull(
            source=f"hf:org/tiny@{COMMIT}",
            repo="org/tiny",
            commit=COMMIT,
            folder=str(self.folder),
            files=tuple(self._offered(name, data) for name, data in self.hub.files.items()),
            why="test",
            python=sys.executable,
        )

    def serve(self, files: dict[str, bytes], *, rate: int | None = None) -> None:
        """`rate` is a connection's, in bytes/s."""
        self.hub.files = files
        self.store.content = {f"/{name}": data for name, data in files.items()}
        if rate:
            self.store.piece = 16 << 10
            self.store.pause_s = self.store.piece / rate

    def pull(self) -> None:
        Local().apply(self.command, lambda done, total: self.told.append((done, total)))

    def assert_there(self) -> None:
        for name, data in self.hub.files.items():
            assert (self.folder / name).read_bytes() == data
            note = json.loads((self.folder / f"{name}.manifest.json").read_text())
            assert (note["sha256"], note["source"]) == (sha256(data), self.command.source)
        left = [p.name for p in self.folder.rglob("*") if p.suffix in (".part", ".aria2", ".conf")]
        assert left == []
        assert not (self.folder / ".cache" / "ddops").exists()
        self.assert_no_daemon()

    def assert_no_daemon(self) -> None:
        lines = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
        assert [line for line in lines if "aria2c" in line and str(self.folder) in line] == []

    def _offered(self, name: str, data: bytes) -> Offered:
        large = is_large(name)
        return Offered(
            name=name,
            url=None,
            size=len(data),
            sha256=sha256(data) if large else None,
            blob=None if large else git_digest(data),
        )


@contextmanager
def worlds(folder: Path, address: str = "127.0.0.1") -> Iterator[World]:
    """`address` is where they listen."""
    store = Files({f"/{name}": data for name, data in FILES.items()}, signed_s=60)
    with serve(store, address), serve_hub(Hub(dict(FILES), sign=store.sign), address) as hub:
        yield World(hub, store, folder)


def in_python(script: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def without(program: str, folder: Path) -> Path:
    """A PATH that has everything but one program."""
    made = folder / "bin"
    made.mkdir()
    for place in ("/usr/bin", "/bin"):
        for file in Path(place).iterdir():
            if file.name != program and not (made / file.name).exists():
                (made / file.name).symlink_to(file)
    return made


@contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def look_around(folder: Path, seen: list[str], confs: list[tuple[int, str]]) -> None:
    ps = ["ps", "axww", "-o", "args"]
    seen.append(subprocess.run(ps, capture_output=True, text=True, check=True).stdout)
    conf = folder / ".cache" / "ddops" / "aria2.conf"
    with suppress(FileNotFoundError):
        text = conf.read_text()
        if text.endswith("enable-color=false\n"):
            confs.append((conf.stat().st_mode & 0o777, text))
