"""`ddops search` with an engine that fails as the field record's did: found, kept, left serving."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ddops.errors import UsageError
from ddops.facts import gpu_memory
from ddops.flows.advise import Advised
from ddops.flows.search import axes_of
from ddops.spec.deployment import Node
from tests.ddops.flows.bench_machine import AR, QUICK, BenchMachine, eventually
from tests.ddops.gpu_boxes import advised, box_of, patched, recorded_options

FAST = {**QUICK, "gap": 0.006}
SLOW = {**QUICK, "gap": 0.03}
CRASH = {"exit": 1, "log": "CUDA error: an illegal memory access was encountered"}
GARBAGE = {**QUICK, "garbage": True}


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BenchMachine]:
    machine = BenchMachine(tmp_path)
    yield machine
    machine.close()


def walled(box: BenchMachine) -> None:
    """Budgets 12 and 16 crash, 32 gives garbage, 8 is the fastest that works."""
    names = {"ddtree-b8": FAST, "ddtree-b4": SLOW, "ddtree-b12": CRASH, "ddtree-b16": CRASH}
    text = json.dumps({"ar": AR, **names, "ddtree-b32": GARBAGE})
    (box.box_home / "plans.json").write_text(text, "utf-8")


def search(box: BenchMachine, *more: str, budgets: str = "8,12,32") -> Any:
    quick = ("--requests", "3", "--max-tokens", "16", "--budgets", budgets)
    return box.ddops("search", "stand", "--yes", *quick, *more)


def test_a_wall_is_found_classified_and_learned_and_the_best_serves(box: BenchMachine) -> None:
    walled(box)
    done = search(box, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    tried = {one["variant"]["name"]: one["failure"] for one in said["tried"]}
    assert tried == {
        "ar": None,
        "ddtree-b8": None,
        "ddtree-b32": "garbage",
        "ddtree-b12": "illegal-access",
    }
    (wall,) = said["found"]["walls"]
    assert (wall["works"]["budget"], wall["fails"]["budget"]) == (8, 12)
    assert said["whole"]
    assert box.budget == 8
    status = box.status()
    assert status["ready"]
    assert status["drift"] == ["decoding.budget: deployed 8, inventory 16"]

    table = yaml.safe_load((box.folder / "rules" / "learned.yaml").read_text("utf-8"))
    (rule,) = table["rules"]
    assert rule["require"] == "budget <= 8"
    assert "12 ends in illegal-access" in rule["why"]
    assert said["folder"] in rule["source"]
    beyond = box.ddops("plan", "stand")  # the inventory's 16
    assert beyond.returncode == 5
    assert f"breaks rule `{rule['name']}`" in beyond.stderr

    records = sorted(path.name for path in (box.folder / said["folder"]).glob("*.c1.r1*.json"))
    assert records == [
        "ar.c1.r1.json",
        "ddtree-b12.c1.r1.failure.json",
        "ddtree-b32.c1.r1.failure.json",
        "ddtree-b8.c1.r1.json",
    ]
    again = search(box, "--dry-run", "--json")
    assert [one["variant"]["name"] for one in json.loads(again.stdout)["tried"]] == list(tried)


def test_an_engine_without_a_wall_is_climbed_and_nothing_is_learned(box: BenchMachine) -> None:
    names = {"ddtree-b4": SLOW, "ddtree-b8": FAST, "ddtree-b16": QUICK}
    (box.box_home / "plans.json").write_text(json.dumps({"ar": AR, **names}), "utf-8")
    done = search(box, budgets="4,8,16")
    assert done.returncode == 0, done.stderr
    assert "no wall was found" in done.stdout
    assert "best: ddtree-b8" in done.stdout
    assert not (box.folder / "rules").exists()


def test_where_no_tree_works_the_box_serves_what_it_served(box: BenchMachine) -> None:
    text = json.dumps({"ar": AR, "ddtree-b8": CRASH, "ddtree-b16": QUICK})
    (box.box_home / "plans.json").write_text(text, "utf-8")
    done = search(box, budgets="8")
    assert done.returncode == 9
    assert "no draft tree works" in done.stderr
    assert box.budget == 16
    assert box.status()["ready"]


def test_a_search_that_was_interrupted_puts_the_box_back_and_goes_on(box: BenchMachine) -> None:
    names = {"ddtree-b8": FAST, "ddtree-b12": CRASH, "ddtree-b16": QUICK}
    (box.box_home / "plans.json").write_text(json.dumps({"ar": AR, **names}), "utf-8")
    argv = ("search", "stand", "--yes", "--requests", "3", "--max-tokens", "16")
    with box.process(*argv, "--budgets", "8,12") as process:
        eventually(lambda: any(name.startswith("ar.") for name in files(box)))
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
    assert box.budget == 16
    first = files(box)["ar.c1.r1.json"]
    assert search(box, budgets="8,12").returncode == 0
    assert files(box)["ar.c1.r1.json"] == first


def files(box: BenchMachine) -> dict[str, bytes]:
    found = (box.folder / "results").glob("search-*/*.json")
    return {path.name: path.read_bytes() for path in found}


def on(machine: str, name: str, **changes: Any) -> Advised:
    version = {"version": "0.5.13", "options": patched("sglang-0.5.13")}
    return advised(machine, box_of(name, **changes), **version)


def test_a_box_varies_what_it_has() -> None:
    whole = axes_of(on("b300", "b300"), (8, 16))
    assert (whole.graphs, whole.nvls, whole.parallel) == (
        ("auto", "off"),
        ("off", "on"),
        ("tp", "ep"),
    )
    no_fabric = axes_of(on("pro6000", "pro6000"), (8, 16))
    assert (no_fabric.nvls, no_fabric.parallel) == ((None,), ("ep", "tp"))


def test_there_is_nothing_to_search_for_without_a_tree_or_over_several_boxes() -> None:
    options = recorded_options("vllm-0.33.0")
    chain = box_of("b300", engine="vllm", decoding={"mode": "chain"})
    with pytest.raises(UsageError, match="no draft tree"):
        axes_of(advised("b300", chain, version="0.33.0", options=options), (8,))
    node = Node(rank=0, of=2, leader="10.0.0.1:20000")
    with pytest.raises(UsageError, match="runs over several"):
        axes_of(on("b300", "b300", node=node), (8,))


def test_a_crash_is_over_when_the_memory_of_every_gpu_came_back() -> None:
    before = gpu_memory.parse("used,4\nused,4\n")
    crashed = gpu_memory.parse("used,4\nused,70000\nholder,4711, /v/bin/python\n")
    assert not gpu_memory.came_back(crashed, before)
    assert crashed.holders == ("4711 /v/bin/python",)
    assert gpu_memory.came_back(gpu_memory.parse("used,600\nused,4\n"), before)
    assert gpu_memory.came_back(gpu_memory.parse(""), gpu_memory.parse(""))
