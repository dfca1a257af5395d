"""`ddops crosscheck --program`: another client asks the deployed service for a cell's load.

The clients themselves are not installed here: in their place a program notes what it was asked
and leaves a file that the real one wrote. Runs of the real ones are in docs/log.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ddops.bench.test_foreign import CLIENTS
from tests.ddops.flows.bench_machine import BenchMachine, eventually
from tests.ddops.machine import Done

CELL = "served.c2.r1"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchMachine]:
    """Its matrix has one variant, which is what is deployed."""
    made = BenchMachine(tmp_path_factory.mktemp("generator"))
    try:
        deployed = {"name": "served", "mode": "ddtree", "budget": 16}
        made.matrix(variants=[deployed], concurrency=[2])
        done = made.bench()
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        made.close()


def program(box: BenchMachine, *lines: str) -> str:
    path = box.folder / "vllm"
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n", "utf-8")
    path.chmod(0o755)
    return str(path)


def crosscheck(box: BenchMachine, client: str, cell: str = CELL) -> Done:
    named = ("--program", client, "--as", "vllm", "--tokenizer", "tok", "--tool-version", "0.33.0")
    return box.ddops("crosscheck", *named, "--box", "stand", "--cell", cell, "--json")


def test_it_asks_the_deployed_service_and_its_result_is_kept(box: BenchMachine) -> None:
    noted = box.folder / "noted"
    client = program(
        box,
        f'echo "$@" > {noted}',
        f"wc -l < prompts.jsonl >> {noted}",
        f"cp {CLIENTS / 'vllm.json'} vllm.json",
    )
    done = crosscheck(box, client)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["cell"], said["result"]["tool_version"]) == (CELL, "0.33.0")
    asked, rows = noted.read_text("utf-8").splitlines()
    assert "--max-concurrency 2" in asked
    assert "--num-prompts 4" in asked
    assert "--base-url http://127.0.0.1:" in asked
    assert int(rows) == 4
    (kept,) = (box.run / "foreign").glob("*.json")
    assert kept.name.startswith(f"{CELL}.vllm-")


def test_a_client_that_fails_is_told_with_its_last_words(box: BenchMachine) -> None:
    failed = crosscheck(box, program(box, "echo no such endpoint >&2", "exit 3"))
    assert failed.returncode == 9
    assert "ended with exit code 3 and without a result" in failed.stderr
    assert "no such endpoint" in failed.stderr


def test_a_client_that_is_not_there_is_told(box: BenchMachine) -> None:
    failed = crosscheck(box, str(box.folder / "nowhere"))
    assert failed.returncode == 9
    assert "ended with exit code 127" in failed.stderr


def test_only_what_is_deployed_is_measured_again(box: BenchMachine) -> None:
    other = {"name": "other", "mode": "ddtree", "budget": 4}
    box.matrix(name="another", variants=[other], concurrency=[2])
    assert box.bench().returncode == 0
    (run,) = (box.folder / "results").glob("another-*")
    client = program(box, "exit 0")
    named = ("--program", client, "--as", "vllm", "--tokenizer", "tok", "--run", str(run))
    refused = box.ddops("crosscheck", *named, "--box", "stand", "--cell", "other.c2.r1")
    assert refused.returncode == 2
    assert "does not serve what other.c2.r1 measured" in refused.stderr


def test_half_a_wish_is_refused(box: BenchMachine) -> None:
    refused = box.ddops("crosscheck", "--program", "vllm", "--cell", CELL)
    assert refused.returncode == 2
    assert "`--as`, `--tokenizer`, `--cell`" in refused.stderr


def test_a_killed_crosscheck_leaves_no_client_behind(box: BenchMachine) -> None:
    noted = box.folder / "pid"
    client = program(box, f"echo $$ > {noted}", "exec sleep 600")
    named = ("--program", client, "--as", "vllm", "--tokenizer", "tok", "--cell", CELL)
    (run,) = (box.folder / "results").glob("small-*")
    with box.process("crosscheck", *named, "--box", "stand", "--run", str(run)) as process:
        eventually(lambda: noted.exists() and noted.read_text("utf-8").strip() != "")
        pid = int(noted.read_text("utf-8"))
        process.terminate()
        assert process.wait(60) == 130
    eventually(lambda: not Path(f"/proc/{pid}").exists())
