"""A bench with coding problems: asked of the real HTTP service, run in the real sandbox."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ddops.bench.coding import load_problems
from ddops.host import sandbox
from ddops.spec.matrix import CodingAsked
from tests.ddops.flows.bench_machine import AR, QUICK, BenchMachine, eventually

MISSING = sandbox.missing()
needs_sandbox = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
RIGHT = {one.entry_point: one.prompt + one.canonical_solution for one in load_problems(
    CodingAsked()
).problems}  # fmt: skip
WRONG = {**RIGHT, "spiral": "def spiral(rows, columns):\n    return []\n"}


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BenchMachine]:
    made = BenchMachine(tmp_path)
    made.matrix(concurrency=[2], coding={"at_least": 5})
    yield made
    made.close()


@needs_sandbox
def test_a_variant_that_solves_fewer_than_wanted_has_no_speed(box: BenchMachine) -> None:
    box.plans(ar={**AR, "answers": RIGHT}, ddtree_b8={**QUICK, "answers": WRONG})
    done = box.bench()
    good = box.record("ar.c2.r1")
    assert good.ok
    assert good.coding is not None
    assert (good.coding.problems, good.coding.pass_at_1) == ("five", 1.0)
    assert [gate.name for gate in good.gates] == ["garbage", "alone", "coding"]
    red = box.record("ddtree-b8.c2.r1.failure")
    assert red.coding is not None
    assert [one.id for one in red.coding.solved if not one.passed] == ["five/5"]
    assert "invalid: coding: 4 of 5 solved, at least 5 wanted; five/5: AssertionE" in done.stderr


@needs_sandbox
def test_who_waits_for_a_program_can_be_interrupted(box: BenchMachine) -> None:
    box.plans(ar={**AR, "hold": 3600})
    with box.benching() as process:
        eventually(lambda: asked_for_programs(box), 120)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert box.files == {}
    assert box.budget == 16


def asked_for_programs(box: BenchMachine) -> bool:
    try:
        said = httpx.get(f"http://127.0.0.1:{box.port}/metrics", trust_env=False).text
    except httpx.HTTPError:
        return False
    return 'ddtree:num_requests_running{model="mock"} 2.0' in said


def test_without_a_sandbox_nothing_begins_and_no_answer_is_run(
    box: BenchMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    refused = box.bench()
    assert refused.returncode == 5
    assert "there is no sandbox: bubblewrap is not installed" in refused.stderr
    assert "apt-get install bubblewrap" in refused.stderr
    assert box.files == {}
