"""Bundles go to a folder or to a real registry, and come back as they were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ddops.bundle.artifact import archive_of
from ddops.cli.app import main
from ddops.errors import BundleError, UsageError
from ddops.flows.bundle import sign
from ddops.flows.bundle_shelf import Moved, pull, push
from ddops.flows.bundle_verify import verify
from ddops.flows.voice import Silent
from ddops.host import registry
from ddops.spec.shelf import BUNDLE_TYPE, Registry, Shelf
from tests.ddops import records
from tests.ddops import registry as real


@pytest.fixture(scope="module")
def host(test_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with real.serving(real.program(test_cache), tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(params=["folder", "registry"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Each test has one of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    if request.param == "folder":
        return tmp_path / "shelf"
    host = request.getfixturevalue("host")
    return Registry(host=host, repository=f"tests/{tmp_path.name.lower().rstrip('_')}")


def put(path: Path, shelf: Shelf, *, replace: bool = False) -> Moved:
    return push(path, shelf, Silent(), replace=replace)


def take(name: str, shelf: Shelf, out: Path) -> Moved:
    return pull(name, shelf, out, Silent())


def other(bundle: Path, tmp_path: Path) -> Path:
    """A sound bundle of the same name: somebody has signed it."""
    changed = Path(shutil.copytree(bundle, tmp_path / "other" / bundle.name))
    key = tmp_path / "key.pem"
    made = Ed25519PrivateKey.generate()
    key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert sign(changed, key)
    return changed


def test_what_is_taken_is_what_was_put_there(bundle: Path, shelf: Shelf, tmp_path: Path) -> None:
    archive = records.archive_of(bundle)
    assert put(archive, shelf).changed
    moved = take(bundle.name, shelf, tmp_path / "out")
    assert moved.changed
    assert Path(moved.where).read_bytes() == archive.read_bytes()
    assert list((tmp_path / "out").iterdir()) == [Path(moved.where)]


def test_a_folder_is_put_there_as_its_archive(bundle: Path, shelf: Shelf, tmp_path: Path) -> None:
    put(bundle, shelf)
    moved = take(bundle.name, shelf, tmp_path / "out")
    assert Path(moved.where).read_bytes() == records.archive_of(bundle).read_bytes()


def test_a_second_time_there_is_nothing_to_change(
    bundle: Path, shelf: Shelf, tmp_path: Path
) -> None:
    assert [put(bundle, shelf).changed for _ in range(2)] == [True, False]
    assert [take(bundle.name, shelf, tmp_path).changed for _ in range(2)] == [True, False]


def test_another_bundle_of_the_name_is_replaced_only_when_that_is_asked_for(
    bundle: Path, shelf: Shelf, tmp_path: Path
) -> None:
    put(bundle, shelf)
    changed = other(bundle, tmp_path)
    with pytest.raises(UsageError, match="another bundle of the name") as told:
        put(changed, shelf)
    assert "--replace" in (told.value.hint or "")
    assert put(changed, shelf, replace=True).changed
    taken = verify(Path(take(bundle.name, shelf, tmp_path).where))
    assert len(taken.signed) == 1


def test_what_lies_in_its_place_is_not_overwritten(
    bundle: Path, shelf: Shelf, tmp_path: Path
) -> None:
    put(bundle, shelf)
    mine = tmp_path / f"{bundle.name}.tar.zst"
    mine.write_bytes(b"mine")
    with pytest.raises(UsageError, match="is there already"):
        take(bundle.name, shelf, tmp_path)
    assert mine.read_bytes() == b"mine"


def test_a_bundle_with_a_fault_is_not_given_away(copy: Path, shelf: Shelf, tmp_path: Path) -> None:
    (copy / "README.md").write_text("# other\n")
    with pytest.raises(BundleError, match="damaged"):
        put(copy, shelf)
    with pytest.raises(UsageError, match="has no bundle"):
        take(copy.name, shelf, tmp_path)


def test_a_name_that_is_not_there_is_told_with_those_that_are(
    bundle: Path, shelf: Shelf, tmp_path: Path
) -> None:
    put(bundle, shelf)
    with pytest.raises(UsageError, match="has no bundle nothing") as told:
        take("nothing", shelf, tmp_path)
    assert told.value.hint == f"it has {bundle.name}"


def test_a_shelf_that_was_damaged_gives_nothing(bundle: Path, tmp_path: Path) -> None:
    moved = put(bundle, shelf := tmp_path / "shelf")
    Path(moved.where).write_bytes(b"rotten")
    with pytest.raises(BundleError, match=r"is not what index\.json says"):
        take(bundle.name, shelf, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert put(bundle, shelf).changed  # and is mended
    assert take(bundle.name, shelf, tmp_path / "out").changed


def test_an_index_of_another_version_is_not_touched(bundle: Path, tmp_path: Path) -> None:
    index = tmp_path / "index.json"
    index.write_text('{"schema_version": 2, "bundles": {}}')
    with pytest.raises(BundleError, match="schema_version"):
        put(bundle, tmp_path)
    assert index.read_text() == '{"schema_version": 2, "bundles": {}}'


def test_others_tools_see_an_artifact_of_one_layer(
    bundle: Path, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shelf = Registry(host=host, repository="seen/by/others")
    moved = put(bundle, shelf)
    with registry.opened(shelf) as repository:
        content = repository.manifest(bundle.name) or b""
        assert repository.tags() == [bundle.name]
    found = json.loads(content)
    assert (found["artifactType"], len(found["layers"])) == (BUNDLE_TYPE, 1)
    title = found["layers"][0]["annotations"]["org.opencontainers.image.title"]
    assert title == f"{bundle.name}.tar.zst"
    assert archive_of(content).sha256 == moved.sha256


def test_an_artifact_of_another_kind_is_no_bundle() -> None:
    layer = {"mediaType": "application/tar", "digest": f"sha256:{'0' * 64}", "size": 1}
    with pytest.raises(ValueError, match="it holds application/tar, and not one"):
        archive_of(json.dumps({"layers": [layer]}).encode())
    with pytest.raises(ValueError, match="cannot be read"):
        archive_of(b"{}")


def test_the_commands_print_where_it_went(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf = str(tmp_path / "shelf")
    assert main(["bundle", "push", str(bundle), shelf]) == 0
    assert capsys.readouterr().out.strip() == f"{shelf}/{bundle.name}.tar.zst"
    line = ["bundle", "pull", bundle.name, shelf, "--out", str(tmp_path)]
    assert main([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] is True
    assert main(line) == 0
    assert "nothing to change" in capsys.readouterr().err
    assert main(["bundle", "push", str(bundle), "oci://nowhere"]) == UsageError.exit_code
    assert "`oci://nowhere` is no shelf" in capsys.readouterr().err
