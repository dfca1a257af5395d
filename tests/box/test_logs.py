"""`ddops logs --follow` of a box behind SSH, across a reboot of the box."""

from __future__ import annotations

import signal
import threading
import time
from queue import Empty, Queue
from typing import IO

from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.site import Site


def test_a_followed_log_goes_on_after_a_reboot_until_ctrl_c(
    equipped: Box, operator: Operator
) -> None:
    site = Site(operator, equipped)
    site.deployed()
    lines: Queue[str] = Queue()
    with site.start("logs", "--follow", "-n", "1") as following:
        assert following.stdout
        assert following.stderr
        reading = threading.Thread(target=_read, args=(following.stdout, lines))
        reading.start()
        try:
            assert _next(lines, 30)
            equipped.run("systemctl", "reboot")
            until = time.monotonic() + 60
            while "stand-in serves /srv/model.gguf" not in _next(lines, 1):
                assert time.monotonic() < until, "nothing of the start after the reboot"
        finally:
            following.send_signal(signal.SIGINT)
            reading.join()
            said = following.stderr.read()
    assert following.returncode == 0, said
    assert len(equipped.must("journalctl", "--list-boots", "--quiet").splitlines()) == 2
    while not site.status()["ready"]:
        assert time.monotonic() < until


def _read(out: IO[str], lines: Queue[str]) -> None:
    for line in out:
        lines.put(line)


def _next(lines: Queue[str], seconds: float) -> str:
    try:
        return lines.get(timeout=seconds)
    except Empty:
        return ""
