"""The sampler on a box behind SSH: it needs no link to go on, and ends with the lock."""

from __future__ import annotations

import json

from ddops.host import sampler
from ddops.host.sampler import Orders
from tests.box.box import Box
from tests.box.operator import Operator
from tests.ddops.flows.bench_machine import eventually

FILE = "/root/telemetry/cell.jsonl"
LOCK = "/root/lock"
PYTHON = "python3"


def test_samples_outlive_the_connection_that_asked_for_them(
    equipped: Box, operator: Operator
) -> None:
    hands = operator.hands(equipped)
    sampler.start(hands, PYTHON, FILE, Orders(pid=1, limit_s=600))
    hands.close()
    before = len(equipped.must("cat", FILE).splitlines())
    equipped.must("systemctl", "restart", "ssh")
    eventually(lambda: len(equipped.must("cat", FILE).splitlines()) > before + 3)
    equipped.wait_for_ssh()
    head, *samples, end = map(json.loads, sampler.stop(hands, PYTHON, FILE).splitlines())
    assert end["end"] == "stopped"
    assert len(samples) >= before + 3
    assert head["why"]["gpus"].startswith("nvidia-ml-py is not installed; nvidia-smi tells of no")
    assert equipped.must("ls", "/root/telemetry") == ""
    hands.close()


def test_it_ends_with_the_lock_it_was_started_under(equipped: Box, operator: Operator) -> None:
    hands = operator.hands(equipped)
    with hands.hold(LOCK, "a test"):
        sampler.start(hands, PYTHON, FILE, Orders(pid=1, limit_s=600, lock=LOCK))
        eventually(lambda: len(equipped.must("cat", FILE).splitlines()) > 20)  # two looks at it
        assert '"end"' not in equipped.must("cat", FILE)
    eventually(lambda: '"end":"abandoned"' in equipped.must("cat", FILE))
    assert json.loads(sampler.stop(hands, PYTHON, FILE).splitlines()[-1])["end"] == "abandoned"
    hands.close()
