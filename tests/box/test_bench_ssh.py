"""`ddops bench` of a box behind SSH: measured through the connection, put back afterwards."""

from __future__ import annotations

import json

import yaml

from ddops.spec.record import Record
from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.site import HOME, SECRET, Site
from tests.ddops.flows.bench_machine import AR, CELLS, QUICK
from tests.ddops.flows.bench_machine import STANDIN as MOCK

VARIANTS = [{"name": "ar", "mode": "ar"}, {"name": "ddtree-b8", "mode": "ddtree", "budget": 8}]


def test_a_matrix_is_measured_over_ssh_and_the_box_put_back(
    equipped: Box, operator: Operator
) -> None:
    site = Site(operator, equipped, MOCK)
    site.inventory(ready_timeout_s=60)
    equipped.write(f"{HOME}/plans.json", json.dumps({"ar": AR, "ddtree-b8": QUICK}))
    load = {"requests": 4, "warmup": 1, "max_tokens": 13}
    matrix = {"name": "small", "variants": VARIANTS, "concurrency": [1, 2], "load": load}
    once = {"repeats": 1, "again": False, "timeout_s": 20}
    (operator.home / "small.yaml").write_text(yaml.safe_dump({**matrix, **once}), "utf-8")
    site.deployed()
    done = site.ddops("bench", "--matrix", "small.yaml", "--yes")
    assert done.returncode == 0, done.stderr
    records = sorted(path.stem for path in operator.home.glob("results/small-*/*.c*.json"))
    assert records == sorted(CELLS)
    for path in operator.home.glob("results/small-*/*.c*.json"):
        seen = Record.model_validate_json(path.read_bytes()).telemetry
        assert seen is not None
        assert seen.host is not None, seen.faults
        assert seen.window is not None
        assert seen.host.service_memory_peak is not None
        assert "not-bracketed" not in {fault.kind for fault in seen.faults}
    assert len([*operator.home.glob("results/small-*/telemetry/*.jsonl")]) == len(CELLS)
    told = [path.read_text("utf-8") for path in operator.home.glob("results/**/*.json")]
    told += [done.stdout, done.stderr, site.ddops("history", "--json").stdout]
    assert '"bench"' in told[-1]
    assert SECRET not in "".join(told)
    assert "--budget 16 " in equipped.must("systemctl", "cat", "ddops-b300")
    assert (site.status()["ready"], site.status()["drift"]) == (True, [])
