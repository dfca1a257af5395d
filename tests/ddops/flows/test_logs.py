"""`ddops logs`: the last lines, and new ones as they come."""

from __future__ import annotations

import os
import signal
from itertools import islice

import httpx
import pytest

from ddops.cli.output import Output
from ddops.errors import HostError
from ddops.flows import logs
from ddops.flows.site import Site
from ddops.flows.voice import Silent
from ddops.host.scripted import Scripted
from ddops.spec.command import Result, Run
from ddops.spec.load import load_box
from tests.ddops.facts.test_facts import MACHINE
from tests.ddops.machine import Machine


def test_prints_the_last_lines(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    shown = machine.ddops("logs", "stand", "-n", "200").stdout
    assert "stand-in serves" in shown
    assert len(machine.ddops("logs", "stand", "-n", "1").stdout.splitlines()) == 1


def test_without_a_service_there_is_nothing(machine: Machine) -> None:
    assert machine.ddops("logs", "stand").stdout == ""


def test_follows_until_ctrl_c(machine: Machine) -> None:
    machine.ddops("deploy", "stand", "--yes")
    following = machine.process("logs", "stand", "-f", "-n", "1")
    assert following.stdout is not None
    first = following.stdout.readline()
    assert first
    httpx.get(f"http://127.0.0.1:{machine.port}/a-new-line")
    while "a-new-line" not in following.stdout.readline():
        pass
    os.kill(following.pid, signal.SIGINT)
    _, said = following.communicate(timeout=20)
    assert (following.returncode, said) == (0, "")


def test_a_journal_is_followed_by_its_cursor() -> None:
    host = Scripted(
        answers={
            "sh -c": MACHINE.replace("ubuntu", "root"),
            "systemctl show": "ActiveState=active\nSubState=running\nMainPID=7",
            "journalctl": "line 1\n-- cursor: s=abc;i=1\n",
        }
    )
    texts = logs.follow(Site(host, load_box("local")), 5, Silent())
    assert list(islice(texts, 2)) == ["line 1\n", "line 1\n"]
    asked = [line for line in host.ran if line.startswith("journalctl")]
    assert asked == [
        "journalctl --unit=ddops-local --no-pager --output=cat -q -n 5 --show-cursor",
        "journalctl --unit=ddops-local --no-pager --output=cat -q --show-cursor"
        " '--after-cursor=s=abc;i=1'",
    ]


class Away(Scripted):
    """Cannot be reached for the first two looks at its journal."""

    refusals = 2

    def run(self, command: Run) -> Result:
        if command.argv[0] == "journalctl" and self.refusals:
            self.refusals -= 1
            raise HostError("nothing listens on b300:22")
        return super().run(command)


def test_a_box_that_went_away_is_waited_for_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "_AWAY_S", 0.0)
    host = Away(
        answers={"sh -c": MACHINE.replace("ubuntu", "root"), "journalctl": "again\n-- cursor: x"}
    )
    texts = logs.follow(Site(host, load_box("local")), 5, Output())
    assert next(iter(texts)) == "again\n"
    assert capsys.readouterr().err == "warning: nothing listens on b300:22; waiting for it\n"
