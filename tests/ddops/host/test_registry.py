"""Blobs and manifests go to a real registry and come back, whatever breaks on the way."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from ddops.errors import BundleError
from ddops.host import registry
from ddops.spec.shelf import MANIFEST_TYPE, Blob, Registry
from tests.ddops import registry as real

SIZE = 3_000_000
PIECE = 1 << 18


@pytest.fixture(scope="module")
def host(test_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with real.serving(real.program(test_cache), tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(registry, "_PIECE", PIECE)
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "content"
    path.write_bytes(random.Random(os.urandom(8)).randbytes(SIZE))
    return path


def blob(file: Path) -> Blob:
    content = file.read_bytes()
    return Blob(digest=f"sha256:{sha256(content).hexdigest()}", size=len(content))


def repository(host: str, name: str = "team/bundles") -> Registry:
    return Registry(host=host, repository=name)


def nothing(done: float, total: float | None) -> None: ...


def test_what_is_pushed_comes_back_and_is_not_pushed_twice(
    host: str, file: Path, tmp_path: Path
) -> None:
    what, back = blob(file), tmp_path / "back"
    with registry.opened(repository(host)) as one:
        assert one.push(what, file, nothing)
        assert not one.push(what, file, nothing)
        one.pull(what, back, nothing)
    assert back.read_bytes() == file.read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_an_upload_that_breaks_is_brought_to_its_end(host: str, file: Path) -> None:
    """This registry forgets an upload that broke within a piece; it is begun again."""
    with (
        real.Cutting(host, up=SIZE // 2) as way,
        registry.opened(repository(way.address)) as one,
    ):
        one.push(blob(file), file, nothing)
    with registry.opened(repository(host)) as one:
        assert not one.push(blob(file), file, nothing)


def test_a_killed_upload_is_taken_up_by_the_next_call(host: str, file: Path, cache: Path) -> None:
    def interrupt(done: float, total: float | None) -> None:
        if done >= SIZE / 2:
            raise KeyboardInterrupt

    with real.Cutting(host) as way, registry.opened(repository(way.address)) as one:
        with pytest.raises(KeyboardInterrupt):
            one.push(blob(file), file, interrupt)
        assert len(list(cache.rglob("*.json"))) == 1
        assert one.push(blob(file), file, nothing)
    assert not list(cache.rglob("*.json"))
    assert way.carried["up"] < SIZE + 2 * PIECE


def test_a_download_that_breaks_goes_on_where_it_was(host: str, file: Path, tmp_path: Path) -> None:
    with registry.opened(repository(host)) as one:
        one.push(blob(file), file, nothing)
    with (
        real.Cutting(host, down=SIZE // 2) as way,
        registry.opened(repository(way.address)) as one,
    ):
        one.pull(blob(file), tmp_path / "back", nothing)
    assert (tmp_path / "back").read_bytes() == file.read_bytes()
    assert way.carried["down"] < SIZE * 1.3


def test_bytes_that_are_not_those_of_the_digest_leave_nothing(
    host: str, file: Path, tmp_path: Path
) -> None:
    part = tmp_path / "back.part"
    part.write_bytes(b"\0" * (SIZE // 2))  # of another file
    with registry.opened(repository(host)) as one:
        one.push(blob(file), file, nothing)
        with pytest.raises(BundleError, match="gave something else"):
            one.pull(blob(file), tmp_path / "back", nothing)
        assert not part.exists()
        one.pull(blob(file), tmp_path / "back", nothing)


def test_manifests_have_names_and_a_name_that_is_not_there_is_none(host: str) -> None:
    with registry.opened(repository(host, "empty")) as one:
        assert one.manifest("nothing") is None
        assert one.tags() == []


def test_a_refusal_is_told_with_the_registrys_own_words(host: str) -> None:
    """A manifest of blobs that it does not have."""
    unknown = {"mediaType": "text/plain", "digest": f"sha256:{'0' * 64}", "size": 1}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": unknown,
        "layers": [unknown],
    }
    with registry.opened(repository(host)) as one, pytest.raises(BundleError) as told:
        one.put_manifest("bad", json.dumps(manifest).encode())
    assert "refuses: it answers 4" in told.value.subject
    assert "BLOB_UNKNOWN" in (told.value.detail or "")


def test_a_registry_that_is_not_there_is_told() -> None:
    with real.Cutting("127.0.0.1:9") as way:
        gone = repository(way.address)
    with pytest.raises(BundleError, match="cannot be reached"), registry.opened(gone) as one:
        one.tags()
