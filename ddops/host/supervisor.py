"""`python -m ddops.host.supervisor start|stop|status HOME`: a service where there is no systemd.

Loads nothing but the standard library and psutil: `status` is asked several times a second.
"""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from ddops.host.process import Process

STARTED_WITHIN_S = 10.0
_GRACE_S = 5.0  # beyond the service's own stop timeout


def start(home: Path) -> int:
    """Start the keeper in a session of its own. Nothing to do when it runs."""
    if _keeper(home):
        return 0
    _end_orphan(home)
    (home / "state.json").unlink(missing_ok=True)
    with (home / "supervisor.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "ddops.host.supervisor", "run", str(home)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    until = time.monotonic() + STARTED_WITHIN_S
    while time.monotonic() < until:
        if _read(home).get("state"):
            return 0
        if keeper.poll() is not None:
            break
        time.sleep(0.02)
    sys.stderr.write((home / "supervisor.log").read_text("utf-8", "replace"))
    return 1


def stop(home: Path) -> int:
    """End the keeper and its process; a keeper that does not listen is killed."""
    keeper = _keeper(home)
    handle = keeper.handle() if keeper else None
    if keeper and handle:
        handle.send_signal(signal.SIGTERM)
        if not _await_end(keeper, _stop_timeout(home) + _GRACE_S):
            handle.kill()
    _end_orphan(home)
    return 0


def status(home: Path) -> int:
    sys.stdout.write(json.dumps(look(home)))
    return 0


def look(home: Path) -> dict[str, Any]:
    """The state as it is now: a state file outlives its keeper."""
    state = _read(home)
    child = Process.load(state.get("child"))
    alive = child is not None and child.alive
    said = state.get("state")
    if said in ("running", "starting") and not _keeper(home):
        said = "stopped"
    return {
        "state": said,
        "pid": child.pid if child and alive else None,
        "uptime_s": time.time() - child.created if child and alive else None,
        "restarts": state.get("restarts", 0),
        "exit_code": state.get("exit_code"),
    }


def run(home: Path) -> int:
    """The keeper itself. The lock makes a second one impossible, whatever the state file says."""
    lock: IO[str] = (home / "supervisor.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write("another keeper holds supervisor.lock\n")
        return 1
    from ddops.host.keeper import Keeper  # twice the imports, which `status` has no use for

    Keeper(home).run()
    return 0


def _keeper(home: Path) -> Process | None:
    found = Process.load(_read(home).get("keeper"))
    return found if found and found.alive else None


def _await_end(process: Process, timeout_s: float) -> bool:
    """A process that only waits to be reaped has ended; psutil's own wait would go on."""
    until = time.monotonic() + timeout_s
    while process.alive:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _end_orphan(home: Path) -> None:
    child = Process.load(_read(home).get("child"))
    handle = child.handle() if child else None
    if child and handle:
        handle.kill()
        _await_end(child, _GRACE_S)


def _stop_timeout(home: Path) -> float:
    unit = home / "unit.json"
    return float(json.loads(unit.read_text("utf-8"))["stop_timeout_s"]) if unit.exists() else 0.0


def _read(home: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((home / "state.json").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


VERBS = {"start": start, "stop": stop, "status": status, "run": run}

if __name__ == "__main__":
    sys.exit(VERBS[sys.argv[1]](Path(sys.argv[2])))
