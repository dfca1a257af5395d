"""Downloads that the box makes itself: the right file or a clear error, nothing fetched twice."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Iterator

import pytest
from huggingface_hub import constants

from ddops.errors import WeightsError
from ddops.host.ssh import Ssh
from ddops.spec.command import Fetch
from ddops.spec.manifest import SUFFIX
from tests.box.box import Box
from tests.box.operator import Operator
from tests.ddops.host.ranged import Files, serve

DATA = random.Random(7).randbytes(1_000_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
PATH = "/srv/w/f"


@pytest.fixture(scope="module", params=["curl", "python3"])
def downloader(bootable: None, request: pytest.FixtureRequest) -> Iterator[Box]:
    """A box with both programs, and one with Python alone."""
    with Box() as box:
        if request.param == "python3":
            box.must("rm", "/usr/bin/curl")
        yield box


@pytest.fixture
def files(downloader: Box) -> Iterator[Files]:
    downloader.must("rm", "-rf", "/srv/w")
    with serve(Files({"/f": DATA}), downloader.gateway) as served:
        yield served


@pytest.fixture
def hands(downloader: Box, operator: Operator) -> Iterator[Ssh]:
    made = operator.hands(downloader)
    yield made
    made.close()


def wanted(files: Files, *, sha256: str | None = SHA256) -> Fetch:
    return Fetch(url=f"{files.url}/f", path=PATH, why="", sha256=sha256, size=len(DATA))


def assert_there(box: Box) -> None:
    assert box.must("sha256sum", PATH).split()[0] == SHA256
    assert box.must("ls", "/srv/w").split() == ["f", f"f{SUFFIX}"]
    note = json.loads(box.must("cat", f"{PATH}{SUFFIX}"))
    assert (note["sha256"], note["size"]) == (SHA256, len(DATA))
    assert note["mtime_ns"] == (box.root / PATH[1:]).stat().st_mtime_ns


def test_a_file_comes_whole_with_its_manifest(files: Files, downloader: Box, hands: Ssh) -> None:
    hands.apply(wanted(files))
    assert_there(downloader)
    assert len(files.asked) == 1


def test_a_dropped_connection_goes_on_where_it_stopped(
    files: Files, downloader: Box, hands: Ssh
) -> None:
    files.drops = [300_000, 300_000, 100_000]
    hands.apply(wanted(files))
    assert_there(downloader)
    assert files.sent == len(DATA)


def test_a_busy_server_is_asked_again(files: Files, downloader: Box, hands: Ssh) -> None:
    files.refusals = [503, 429]
    hands.apply(wanted(files))
    assert_there(downloader)


def test_a_server_without_ranges_starts_again(files: Files, downloader: Box, hands: Ssh) -> None:
    files.ignores_ranges = True
    files.drops = [400_000]
    hands.apply(wanted(files))
    assert_there(downloader)


def test_a_flipped_byte_is_noticed_and_the_file_fetched_once_more(
    files: Files, downloader: Box, hands: Ssh
) -> None:
    files.flips = [777_777]
    hands.apply(wanted(files))
    assert_there(downloader)


def test_a_file_that_is_not_the_wanted_one_gets_no_name(
    files: Files, downloader: Box, hands: Ssh
) -> None:
    with pytest.raises(WeightsError, match="with 0000") as caught:
        hands.apply(wanted(files, sha256="0" * 64))
    assert "the source was replaced" in str(caught.value.hint)
    assert downloader.must("ls", "/srv/w") == ""


@pytest.mark.parametrize(
    ("status", "hint"), [(404, "check `source`"), (401, "HF_TOKEN"), (403, "HF_TOKEN")]
)
def test_a_refusal_is_said_at_once(files: Files, hands: Ssh, status: int, hint: str) -> None:
    files.refusals = [status] * 9
    with pytest.raises(WeightsError, match=f"{status}") as caught:
        hands.apply(wanted(files))
    assert hint in str(caught.value.hint)
    assert len(files.asked) == 1


def test_what_an_interrupted_run_left_is_not_fetched_again(
    files: Files, downloader: Box, hands: Ssh
) -> None:
    """The connection is cut while the box downloads: as kill -9 of ddops, or a dead link."""
    files.pause_s = 0.1
    cut = threading.Timer(0.8, downloader.run, ("pkill", "-f", "^sshd: root"))
    cut.start()
    hands.apply(wanted(files))
    assert_there(downloader)
    assert files.sent < len(DATA) + 4 * 64 * 1024


def test_the_token_is_in_no_list_of_processes_and_goes_to_the_hub_alone(
    files: Files,
    downloader: Box,
    hands: Ssh,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_s3cret")
    monkeypatch.setattr(constants, "ENDPOINT", files.url)
    with serve(Files({"/f": DATA}, pause_s=0.05), downloader.gateway) as store:
        files.redirects["/f"] = f"{store.url}/f"
        seen: list[str] = []
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                seen.append(downloader.must("ps", "axww", "-o", "args"))
                time.sleep(0.05)

        watching = threading.Thread(target=watch)
        watching.start()
        hands.apply(wanted(files))
        done.set()
        watching.join()
    assert_there(downloader)
    assert [one.authorization for one in files.asked] == ["Bearer hf_s3cret"]
    assert [one.authorization for one in store.asked] == [None]
    assert any(f"{files.url}/f" in text for text in seen)
    assert "s3cret" not in "".join(seen)
