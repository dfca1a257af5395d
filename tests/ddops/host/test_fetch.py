"""Downloads from a real server: whatever it does, the right file or a clear error, nothing lost."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import stamina

from ddops.errors import WeightsError
from ddops.host.fetch import fetch
from ddops.spec.command import Fetch
from tests.ddops.host.ranged import Files, serve

DATA = random.Random(7).randbytes(1_000_000)
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=4, cap=True):
        yield


@pytest.fixture
def files() -> Iterator[Files]:
    with serve(Files({"/f": DATA})) as served:
        yield served


def command(files: Files, folder: Path, *, sha256: str | None = SHA256) -> Fetch:
    url = f"{files.url}/f"
    return Fetch(url=url, path=str(folder / "f"), why="test", sha256=sha256, size=len(DATA))


def silent(done: float, total: float | None) -> None:
    pass


def assert_there(folder: Path) -> None:
    assert (folder / "f").read_bytes() == DATA
    assert not (folder / "f.part").exists()
    assert not (folder / "f.part.json").exists()
    assert json.loads((folder / "f.manifest.json").read_text())["sha256"] == SHA256


def test_a_file_comes_whole_with_its_manifest(files: Files, tmp_path: Path) -> None:
    told: list[tuple[float, float | None]] = []
    fetch(command(files, tmp_path), lambda done, total: told.append((done, total)))
    assert_there(tmp_path)
    assert told[-1] == (len(DATA), len(DATA))
    assert len(files.asked) == 1


def test_a_dropped_connection_goes_on_where_it_stopped(files: Files, tmp_path: Path) -> None:
    files.drops = [300_000, 300_000, 100_000, 100_000, 100_000]
    fetch(command(files, tmp_path), silent)
    assert_there(tmp_path)
    assert files.sent == len(DATA)
    assert files.asked[1].range == "bytes=300000-"


def test_an_earlier_run_is_continued(files: Files, tmp_path: Path) -> None:
    files.drops = [400_000, 0, 0, 0, 0]
    with pytest.raises(WeightsError) as caught:
        fetch(command(files, tmp_path), silent)
    assert "0.4 MB are kept" in str(caught.value.detail)
    assert caught.value.exit_code == 6
    files.asked.clear()
    fetch(command(files, tmp_path), silent)
    assert_there(tmp_path)
    assert files.sent == len(DATA) - 400_000


def test_a_killed_download_is_continued(files: Files, tmp_path: Path) -> None:
    files.pause_s = 0.1
    script = (
        "from ddops.host.fetch import fetch; from ddops.spec.command import Fetch; import sys;"
        "fetch(Fetch.model_validate_json(sys.argv[1]), lambda d, t: None)"
    )
    wanted = command(files, tmp_path).model_dump_json()
    running = subprocess.Popen([sys.executable, "-c", script, wanted])
    part, until = tmp_path / "f.part", time.monotonic() + 20
    while not part.exists() or part.stat().st_size < 200_000:
        assert time.monotonic() < until, "it downloads nothing"
        time.sleep(0.01)
    running.kill()
    running.wait()
    kept = part.stat().st_size
    assert 200_000 <= kept < len(DATA)
    files.pause_s = 0.0
    files.asked.clear()
    fetch(command(files, tmp_path), silent)
    assert_there(tmp_path)
    assert files.sent == len(DATA) - kept


def test_a_server_that_ignores_ranges_starts_over(files: Files, tmp_path: Path) -> None:
    files.drops, files.ignores_ranges = [400_000], True
    fetch(command(files, tmp_path), silent)
    assert_there(tmp_path)
    assert files.sent == 400_000 + len(DATA)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(files: Files, tmp_path: Path, status: int) -> None:
    files.refusals = [status, status]
    fetch(command(files, tmp_path), silent)
    assert_there(tmp_path)


def test_a_server_that_stays_busy_is_an_error(files: Files, tmp_path: Path) -> None:
    files.refusals = [503] * 50
    with pytest.raises(WeightsError, match="the server answers 503"):
        fetch(command(files, tmp_path), silent)
    assert len(files.asked) == 4


def test_a_missing_file_is_not_asked_for_twice(files: Files, tmp_path: Path) -> None:
    files.content.clear()
    with pytest.raises(WeightsError, match="the server answers 404") as caught:
        fetch(command(files, tmp_path), silent)
    assert caught.value.hint == "check `source` in the inventory"
    assert len(files.asked) == 1


def test_a_flipped_byte_is_noticed_and_fetched_again(files: Files, tmp_path: Path) -> None:
    files.flips = [123_456]
    fetch(command(files, tmp_path), silent)
    assert_there(tmp_path)
    assert files.sent == 2 * len(DATA)


def test_a_file_that_is_always_wrong_is_refused(files: Files, tmp_path: Path) -> None:
    files.flips = [1, 1]
    with pytest.raises(WeightsError, match="is not what it should be, twice: sha256"):
        fetch(command(files, tmp_path), silent)
    assert list(tmp_path.iterdir()) == []


def test_a_part_damaged_on_the_disk_costs_one_more_download(files: Files, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(b"x" * 500_000)
    fetch(command(files, tmp_path), silent)
    assert_there(tmp_path)


def test_a_file_that_changed_underneath_is_not_mixed(files: Files, tmp_path: Path) -> None:
    files.drops = [400_000, 0, 0, 0, 0]
    with pytest.raises(WeightsError):
        fetch(command(files, tmp_path, sha256=None), silent)
    files.content["/f"], files.etag = DATA[::-1], '"v2"'
    fetch(command(files, tmp_path, sha256=None), silent)
    assert (tmp_path / "f").read_bytes() == DATA[::-1]


def test_without_version_and_digest_a_part_is_not_trusted(files: Files, tmp_path: Path) -> None:
    files.etag = None
    (tmp_path / "f.part").write_bytes(b"x" * 500_000)
    fetch(command(files, tmp_path, sha256=None), silent)
    assert (tmp_path / "f").read_bytes() == DATA


def test_another_size_than_pinned_is_refused_before_it_is_fetched(
    files: Files, tmp_path: Path
) -> None:
    files.content["/f"] = DATA[:10]
    with pytest.raises(WeightsError, match="has 10 bytes, 1000000 were expected"):
        fetch(command(files, tmp_path), silent)


def test_a_complete_part_is_only_checked(files: Files, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(DATA)
    fetch(command(files, tmp_path), silent)
    assert_there(tmp_path)
    assert files.sent == 0


def test_a_signed_link_that_ran_out_is_asked_for_again(files: Files, tmp_path: Path) -> None:
    with serve(Files({"/signed": DATA}, refusals=[403])) as store:
        files.redirects["/f"] = f"{store.url}/signed"
        fetch(command(files, tmp_path), silent)
    assert_there(tmp_path)
    assert [one.path for one in files.asked] == ["/f", "/f"]


def test_the_token_stays_with_the_hub(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "s3cret")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", files.url)
    with serve(Files({"/store": DATA})) as store:
        files.redirects["/f"] = f"{store.url}/store"
        fetch(command(files, tmp_path), silent)
        assert [one.authorization for one in store.asked] == [None]
    assert [one.authorization for one in files.asked] == ["Bearer s3cret"]


def test_no_other_host_gets_the_token(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "s3cret")
    fetch(command(files, tmp_path), silent)
    assert [one.authorization for one in files.asked] == [None]


def test_a_file_on_this_disk_is_copied_and_checked(tmp_path: Path) -> None:
    source = tmp_path / "wheels" / "a b.whl"
    source.parent.mkdir()
    source.write_bytes(DATA)
    wanted = Fetch(url=source.as_uri(), path=str(tmp_path / "f"), why="test", sha256=SHA256)
    fetch(wanted, silent)
    assert_there(tmp_path)


def test_a_damaged_file_on_this_disk_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "bad.whl"
    source.write_bytes(DATA[:-1])
    wanted = Fetch(url=source.as_uri(), path=str(tmp_path / "f"), why="test", sha256=SHA256)
    with pytest.raises(WeightsError, match=r"bad\.whl is not what it should be"):
        fetch(wanted, silent)
    assert not (tmp_path / "f").exists()


def test_a_full_disk_is_told_with_numbers(files: Files) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    wanted = command(files, Path("/dev/shm"))
    part = Path(f"{wanted.path}.part")
    part.symlink_to(full)
    try:
        with pytest.raises(WeightsError, match=r"the disk is full: [\d.]+ MB are free"):
            fetch(wanted, silent)
    finally:
        part.unlink()
        Path(f"{part}.json").unlink(missing_ok=True)
