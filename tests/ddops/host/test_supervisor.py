"""The keeper of a process, with real processes: restarts, limits, stops, and no orphans."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddops.host import supervisor
from ddops.host.keeper import Log
from ddops.host.process import Process

SERVE = "import time; print('serving', flush=True); time.sleep(600)"


@dataclass
class Home:
    """The folder of one service, and the keeper's command line on it."""

    path: Path

    def unit(self, script: str, **changes: Any) -> None:
        unit: dict[str, Any] = {
            "argv": [sys.executable, "-c", script],
            "workdir": str(self.path),
            "env": {"FROM_UNIT": "yes"},
            "env_file": str(self.path / "env"),
            "stop_timeout_s": 5.0,
            "start_limit": 3,
            "start_window_s": 60.0,
            "restart_delay_s": 0.05,
            "final_exit_codes": [2, 3, 4, 5],
        }
        (self.path / "unit.json").write_text(json.dumps({**unit, **changes}), "utf-8")

    def call(self, verb: str, **env: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "ddops.host.supervisor", verb, str(self.path)],
            env={**os.environ, **env},
            check=True,
            timeout=30,
        )

    def look(self) -> dict[str, Any]:
        return supervisor.look(self.path)

    def log(self) -> str:
        return (self.path / "service.log").read_text("utf-8")

    def keeper(self) -> int:
        state = json.loads((self.path / "state.json").read_text("utf-8"))
        return int(state["keeper"]["pid"])


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    supervisor.stop(tmp_path)


def until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def test_starts_once_however_often_it_is_told_to(home: Home) -> None:
    home.unit(SERVE)
    home.call("start")
    first = home.look()
    assert first["state"] == "running"
    assert first["uptime_s"] < 10.0
    home.call("start")
    assert home.look()["pid"] == first["pid"]


def test_a_stop_ends_the_process_and_the_keeper(home: Home) -> None:
    home.unit(SERVE)
    home.call("start")
    keeper, child = Process.of(home.keeper()), Process.of(home.look()["pid"])
    home.call("stop")
    assert home.look()["state"] == "stopped"
    assert not child.alive
    assert not keeper.alive  # it may wait to be reaped by process 1
    home.call("stop")


def test_a_process_that_does_not_listen_is_killed_in_the_end(home: Home) -> None:
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SERVE}"
    home.unit(deaf, stop_timeout_s=0.3)
    home.call("start")
    until(lambda: "serving" in home.log())
    pid = home.look()["pid"]
    home.call("stop")
    assert not psutil.pid_exists(pid)
    assert "killed by SIGKILL" in home.log()


def test_a_crash_is_followed_by_a_restart(home: Home) -> None:
    home.unit(SERVE)
    home.call("start")
    pid = home.look()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: home.look()["pid"] not in (None, pid))
    seen = home.look()
    assert (seen["state"], seen["restarts"], seen["exit_code"]) == ("running", 1, -9)


def test_restarts_have_a_limit(home: Home) -> None:
    home.unit("import sys; sys.exit(7)")
    home.call("start")
    until(lambda: home.look()["state"] == "failed")
    seen = home.look()
    assert (seen["restarts"], seen["exit_code"], seen["pid"]) == (2, 7, None)
    assert "ended 3 times in a short time: given up" in home.log()


@pytest.mark.parametrize("code", [2, 3, 4, 5])
def test_a_final_exit_code_is_not_followed_by_a_restart(home: Home, code: int) -> None:
    home.unit(f"import sys; sys.exit({code})")
    home.call("start")
    until(lambda: home.look()["state"] == "failed")
    seen = home.look()
    assert (seen["restarts"], seen["exit_code"]) == (0, code)


def test_exit_code_0_is_a_stop(home: Home) -> None:
    home.unit("pass")
    home.call("start")
    until(lambda: home.look()["state"] == "stopped")
    assert home.look()["exit_code"] == 0


def test_a_program_that_does_not_exist_fails_with_127(home: Home) -> None:
    home.unit("", argv=["/nowhere/python"], start_limit=1)
    home.call("start")
    until(lambda: home.look()["state"] == "failed")
    assert home.look()["exit_code"] == 127
    assert "cannot start /nowhere/python" in home.log()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends a child with its parent")
def test_no_orphan_is_left_when_the_keeper_is_killed(home: Home) -> None:
    home.unit(SERVE)
    home.call("start")
    child = Process.of(home.look()["pid"])
    os.kill(home.keeper(), signal.SIGKILL)
    until(lambda: not child.alive)
    assert home.look()["state"] == "stopped"
    home.call("start")
    assert home.look()["state"] == "running"


def test_what_the_process_started_ends_with_it(home: Home) -> None:
    leaves = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    home.unit(f"{leaves}; raise SystemExit(3)")
    home.call("start")
    until(lambda: home.look()["state"] == "failed")
    left = next(int(line) for line in home.log().splitlines() if line.isdigit())
    until(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == "zombie")


def test_a_recycled_pid_is_not_taken_for_the_service(home: Home) -> None:
    home.unit(SERVE)
    mine = {"pid": os.getpid(), "created": 1000.0}
    state = {"state": "running", "keeper": mine, "child": mine, "restarts": 0, "exit_code": None}
    (home.path / "state.json").write_text(json.dumps(state), "utf-8")
    assert home.look()["state"] == "stopped"
    assert home.look()["pid"] is None
    home.call("stop")  # would end this test if it believed the file
    home.call("start")
    assert home.look()["state"] == "running"


def test_only_one_keeper_can_hold_a_service(home: Home) -> None:
    home.unit(SERVE)
    home.call("start")
    second = subprocess.run(
        [sys.executable, "-m", "ddops.host.supervisor", "run", str(home.path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert second.returncode == 1
    assert "another keeper" in second.stderr


def test_the_environment_is_the_units_and_not_the_users(home: Home) -> None:
    (home.path / "env").write_text('# a comment\nDDTREE_API_KEY="k3y"\n', "utf-8")
    home.unit("import json, os; print(json.dumps(dict(os.environ)))")
    home.call("start", FROM_SHELL="leaks")
    until(lambda: home.look()["state"] == "stopped")
    line = next(line for line in home.log().splitlines() if line.startswith("{"))
    seen = json.loads(line)
    assert seen["FROM_UNIT"] == "yes"
    assert seen["DDTREE_API_KEY"] == "k3y"
    assert "FROM_SHELL" not in seen


def test_the_log_has_a_cap(tmp_path: Path) -> None:
    log = Log(tmp_path / "service.log", cap=1000)
    for number in range(100):
        log.write(f"line {number:>40}\n".encode())
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"service.log", "service.log.1"}
    assert all(size < 1100 for size in sizes.values())
    log.file.close()
