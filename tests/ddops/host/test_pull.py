"""Pulls from a hub and its store with a real aria2c: whatever they do, right files or words."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

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

pytestmark = pytest.mark.skipif(not shutil.which("aria2c"), reason="aria2c is not installed")


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
            python="python3",
        )

    def pull(self) -> None:
        Local().apply(self.command, lambda done, total: self.told.append((done, total)))

    def _offered(self, name: str, data: bytes) -> Offered:
        url = f"{self.hub.url}/org/tiny/resolve/{COMMIT}/{name}"
        large = is_large(name)
        return Offered(
            name=name,
            url=url,
            size=len(data),
            sha256=sha256(data) if large else None,
            blob=None if large else git_digest(data),
        )

    def assert_there(self) -> None:
        for name, data in self.hub.files.items():
            assert (self.folder / name).read_bytes() == data
            note = json.loads((self.folder / f"{name}.manifest.json").read_text())
            assert (note["sha256"], note["source"]) == (sha256(data), self.command.source)
        left = [p.name for p in self.folder.rglob("*") if p.suffix in (".part", ".aria2", ".conf")]
        assert left == []
        assert not (self.folder / ".cache" / "ddops").exists()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    store = Files({f"/{name}": data for name, data in FILES.items()}, signed_s=60)
    with serve(store), serve_hub(Hub(dict(FILES), sign=store.sign)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield World(hub, store, tmp_path / "w")


def test_files_come_over_many_connections_with_their_manifests(world: World) -> None:
    world.pull()
    world.assert_there()
    assert world.told[-1] == (2 * len(BIG) + 23, 2 * len(BIG) + 23)
    ranges = [one.range for one in world.store.asked if one.path.startswith("/model-1")]
    assert len(ranges) == 4  # pieces of a megabyte
    assert world.store.sent < 2 * len(BIG) + 2 * MB  # the first connection asks for all
