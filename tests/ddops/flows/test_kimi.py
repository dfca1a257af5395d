"""Kimi K2.6 with the bundled engine on the record's boxes: the whole dry run on a bare one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ddops.spec.observed import Holding, Observed
from tests.ddops import gpu_boxes
from tests.ddops.kimi_hub import REPOSITORIES, kimi_hub
from tests.ddops.machine import Done, run_here

GOLDEN = Path(__file__).with_name("golden")
BOXES = {"b300-ddtree": "b300", "pro6000-ddtree": "pro6000"}


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with kimi_hub() as url:
        yield url


def rented(machine: str) -> Observed:
    """The record's box with a driver, Python and a large disk; of weights it knows nothing."""
    box = gpu_boxes.seen(machine)
    return box.model_copy(
        update={
            "system": box.system.model_copy(update={"disk_free": 2 * 10**12, "root": True}),
            "tools": ("gcc", "cc", "apt-get", "aria2c", "libnuma.so.1"),
            "model": _unknown(box.model),
            "drafter": _unknown(box.drafter),
        }
    )


def _unknown(held: Holding | None) -> Holding:
    assert held is not None
    return held.model_copy(update={"offer": None})


@dataclass(frozen=True)
class Typed:
    """`ddops deploy BOX --dry-run` as typed; only what the box answers is recorded."""

    hub: str
    folder: Path
    patch: pytest.MonkeyPatch

    def __call__(self, name: str, *words: str) -> Done:
        host = gpu_boxes.site(gpu_boxes.box_of(name), version="0.1.0").host
        seen = rented(BOXES.get(name, name))
        self.patch.setattr("ddops.flows.site.open_host", lambda box, pin=None: host)
        self.patch.setattr("ddops.flows.plan.look", lambda host, box: seen)
        environment = {**os.environ, "HF_ENDPOINT": self.hub, "NO_COLOR": "1"}
        done = run_here(("deploy", name, "--dry-run", *words), self.folder, environment)
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def dry_run(hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    return Typed(hub, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", BOXES)
def test_the_dry_run_shows_download_memory_ranks_and_unit(name: str, dry_run: Typed) -> None:
    """`GOLDEN=write pytest …` writes it again: read the difference before it is committed."""
    lines = [line.rstrip() for line in dry_run(name).stdout.splitlines()]
    file = GOLDEN / f"{name}.dry-run.txt"
    if os.environ.get("GOLDEN") == "write":
        file.write_text("\n".join(lines) + "\n", "utf-8")
    assert lines == file.read_text("utf-8").splitlines()


def test_the_plan_fetches_every_byte_that_the_hub_lists(dry_run: Typed) -> None:
    said = json.loads(dry_run("b300-ddtree", "--json").stdout)
    listed = [size for files in REPOSITORIES.values() for name, size in files.items()]
    cards = REPOSITORIES["moonshotai/Kimi-K2.6"]["README.md"]
    assert said["bytes"] == sum(listed) - cards
    memory = said["memory"]
    parts = memory["weights"] + memory["cache"] + memory["reserve"]
    assert (memory["gpus"], parts < memory["memory"] < 275) == (8, True)


def test_rules_know_the_sizes_before_the_first_byte_is_there(dry_run: Typed) -> None:
    """Or the unit of a first plan would be another one than that of the next."""
    first = json.loads(dry_run("b300", "--override", "sglang-has-no-tree", "--json").stdout)
    assert "--mem-fraction-static" in first["unit"]
    assert first["memory"]["weights"] == pytest.approx(70.1, abs=0.1)


def test_explain_shows_the_budget_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = gpu_boxes.site(gpu_boxes.box_of("pro6000-ddtree"), version="0.1.0").host
    monkeypatch.setattr("ddops.flows.site.open_host", lambda box, pin=None: host)
    monkeypatch.setattr("ddops.flows.explain.look", lambda host, box: gpu_boxes.seen("pro6000"))
    done = run_here(("explain", "pro6000-ddtree"), tmp_path, {**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    assert "each of 8 x NVIDIA RTX PRO 6000" in done.stdout
    assert "--ep 8" in done.stdout
