"""`ddops history`: what was done to a box, by whom, how it ended; where a deploy stopped."""

from __future__ import annotations

import getpass
import json
import platform
import signal
from typing import Any

import pytest

from ddops.errors import StepError
from ddops.flows.history import recorded
from ddops.flows.site import Site
from ddops.flows.voice import Silent
from ddops.host.scripted import Scripted
from ddops.spec.command import Result, Run
from ddops.spec.history import parse
from ddops.spec.load import load_box
from tests.ddops.flows.test_deploy import wait_for
from tests.ddops.machine import Machine


def told(machine: Machine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(machine.ddops("history", "stand", "--json").stdout)
    return found


def test_every_action_is_one_entry_with_who_where_and_how_it_ended(machine: Machine) -> None:
    assert "nothing was done" in machine.ddops("history", "stand").stdout
    machine.ddops("deploy", "stand", "--yes")
    machine.ddops("deploy", "stand", "--yes")  # nothing to change is no action
    machine.ddops("restart", "stand")
    machine.ddops("stop", "stand")
    machine.ddops("stop", "stand")
    found = told(machine)
    assert [(one["verb"], one["outcome"]) for one in found] == [
        ("deploy", "done"),
        ("restart", "done"),
        ("stop", "done"),
    ]
    assert {(one["who"], one["machine"]) for one in found} == {(getpass.getuser(), platform.node())}
    assert len({one["plan"] for one in found}) == 3
    assert found[0]["done"][-1] == "start the service"
    shown = machine.ddops("history", "stand", "-n", "1", "--steps").stdout
    assert "stop the service" in shown
    assert "restart" not in shown
    assert (machine.box_home / "history.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_failure_is_told_with_its_reason(machine: Machine) -> None:
    machine.behave(exit=4)
    machine.ddops("deploy", "stand", "--yes")
    (only,) = told(machine)
    assert only["outcome"] == "failed"
    assert "out of memory (exit code 4)" in only["reason"]
    assert len(only["done"]) == only["steps"]


@pytest.mark.parametrize(
    ("ending", "how"), [(signal.SIGINT, "was interrupted"), (signal.SIGKILL, "was cut short")]
)
def test_the_next_deploy_says_where_the_last_one_stopped(
    machine: Machine, ending: signal.Signals, how: str
) -> None:
    machine.behave(never_ready=True)
    running = machine.process("deploy", "stand", "--yes")
    wait_for(machine.box_home / "state.json")
    running.send_signal(ending)
    running.communicate(timeout=20)
    machine.behave()
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 0, done.stderr
    who = f"({getpass.getuser()} on {platform.node()})"
    assert f"{who} {how} " in done.stderr
    assert "going on from what is there" in done.stderr
    assert told(machine)[-1]["outcome"] == "done"


def test_a_planted_secret_is_not_in_it(machine: Machine) -> None:
    key = machine.folder / "key"
    key.write_text("s3cret-of-the-box\n", "utf-8")
    machine.inventory(serving={"port": machine.port, "api_key_file": str(key)})
    box = load_box(str(machine.folder / "inventories" / "stand.yaml"))
    written: list[str] = []

    class Keeps(Scripted):
        def run(self, command: Run) -> Result:
            written.append(command.stdin or "")
            return super().run(command)

    site = Site(Keeps(files={str(key): b"s3cret-of-the-box"}), box)
    url = "https://alice:pass-of-alice@hub/x?Signature=abcdefgh"
    with (
        pytest.raises(StepError),
        recorded(site, "deploy", (), Silent()),
    ):
        raise StepError(f"{url} answered s3cret-of-the-box")
    assert "answered" in "".join(written)
    for secret in ("s3cret", "pass-of-alice", "abcdefgh"):
        assert secret not in "".join(written)


def test_a_box_that_cannot_take_a_line_is_told_before_anything_is_done() -> None:
    full = Result(
        argv=(), code=1, stdout="", stderr="cat: write error: No space left on device", seconds=0
    )
    host = Scripted(answers={"sh -c '\numask 077": full})
    with (
        pytest.raises(
            StepError, match="cannot be written: cat: write error: No space left"
        ) as caught,
        recorded(Site(host, load_box("local")), "deploy", (), Silent()),
    ):
        raise AssertionError("nothing may be done")
    assert caught.value.hint == "free some space there"


def test_a_line_cut_short_spoils_none_that_comes_after(machine: Machine) -> None:
    file = machine.box_home / "history.jsonl"
    file.write_text('{"at": "2026', "utf-8")
    machine.ddops("deploy", "stand", "--yes")
    assert [one["outcome"] for one in told(machine)] == ["done"]


def test_a_long_history_makes_room_for_a_new_one(machine: Machine) -> None:
    file = machine.box_home / "history.jsonl"
    file.write_text("x\n" * 500_000, "utf-8")
    machine.ddops("deploy", "stand", "--yes")
    assert file.stat().st_size < 10_000
    assert file.with_name("history.jsonl.1").stat().st_size == 1_000_000


def test_a_line_cut_short_hides_no_other() -> None:
    event = {
        "at": "2026-01-01T00:00:00+00:00",
        "action": "a",
        "verb": "stop",
        "who": "alice",
        "machine": "m",
        "plan": "",
        "steps": 0,
        "done": 0,
        "outcome": "begun",
        "line": "",
    }
    text = f'{{"at": "2026\n{json.dumps(event)}\n{json.dumps({**event, "outcome": "done"})}\n'
    (only,) = parse(text)
    assert only.outcome == "done"
