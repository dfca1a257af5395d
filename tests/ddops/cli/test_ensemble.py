"""Boxes that serve as one, behind the real router: started in order, put back together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ddops.machine import Done, Machine, free_port


class Trio(Machine):
    """Replicas `stand` and `other`, and `front`, a router before them. All of group `all`."""

    def __post_init__(self) -> None:
        self.ports = {"other": free_port(), "front": free_port(), "counters": free_port()}
        super().__post_init__()
        self.write()

    def write(self, *, nobody: bool = False, **changes: Any) -> None:
        """`changes` of what both replicas serve; `nobody`: is where the router looks for one."""
        self.inventory(**changes)
        stand = yaml.safe_load(self._path("stand").read_text("utf-8"))["deployment"]
        other = {**stand, "serving": {"port": self.ports["other"]}}
        replicas = {
            "stand": f"http://127.0.0.1:{9 if nobody else self.port}",
            "other": f"http://127.0.0.1:{self.ports['other']}",
        }
        front = {
            "engine": "vllm-router",
            "model": {"name": "stand-in"},
            "router": {"replicas": replicas, "policy": "round_robin"},
            "serving": {"port": self.ports["front"]},
            "flags": {"--prometheus-port": self.ports["counters"]},
            "ready_timeout_s": 2 if nobody else 60,
        }
        for box, deployment in {"stand": stand, "other": other, "front": front}.items():
            text = yaml.safe_dump({"groups": ["all"], "deployment": deployment})
            self._path(box).write_text(text, "utf-8")

    def spoil(self, box: str, **how: Any) -> None:
        folder = self.home / "boxes" / box
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "behave.json").write_text(json.dumps(how), "utf-8")

    def units(self) -> dict[str, str]:
        boxes = ("stand", "other", "front")
        return {box: (self.home / "boxes" / box / "unit.json").read_text("utf-8") for box in boxes}

    def pid(self, box: str) -> int | None:
        found: dict[str, Any] = json.loads(self.ddops("status", box, "--json").stdout)
        pid: int | None = found["service"]["pid"]
        return pid

    def _path(self, box: str) -> Path:
        return self.folder / "inventories" / f"{box}.yaml"


def outcomes(done: Done) -> dict[str, Any]:
    return {one["box"]: one for one in json.loads(done.stdout)}


def ended(trio: Trio) -> None:
    for box in ("front", "other", "stand"):
        trio.ddops("stop", box)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Trio, Done]]:
    """All three up, and what the deploy said. Every test leaves them so."""
    made = Trio(tmp_path_factory.mktemp("trio"))
    yield made, made.ddops("deploy", "all", "--yes", "--json")
    ended(made)


@pytest.fixture
def serving(deployed: tuple[Trio, Done]) -> Iterator[Trio]:
    trio, _ = deployed
    units, front = trio.units(), trio.pid("front")
    yield trio
    assert trio.units() == units, "what served before does not serve again"
    assert front is not None
    trio.spoil("other")
    trio.write()


def test_a_router_starts_after_its_replicas_and_answers_for_them(
    deployed: tuple[Trio, Done],
) -> None:
    trio, done = deployed
    assert done.returncode == 0, done.stderr
    told = outcomes(done)
    assert told["front"]["result"]["answer"]["text"] == "Paris is the capital of France."
    before, _, after = done.stderr.partition("wait for stand-in behind every address")
    assert "to generate its first token" in before  # of the replicas, which came first
    assert "to generate its first token" not in after
    status = json.loads(trio.ddops("status", "front", "--json").stdout)
    assert status["health"]["status"] == "2 of 2 replicas are healthy"
    again = trio.ddops("deploy", "all", "--yes")
    assert again.stdout.count("nothing to change") == 3


def test_every_argument_of_a_router_has_its_reason(serving: Trio) -> None:
    said = json.loads(serving.ddops("explain", "front", "--json").stdout)
    assert said["options_from"].startswith("vllm-router ")
    given = [(one["flag"], one["value"], one["why"]) for one in said["arguments"]]
    assert given[:2] == [
        ("--worker-urls", f"http://127.0.0.1:{serving.ports['other']}", "replica `other`"),
        ("", f"http://127.0.0.1:{serving.port}", "replica `stand`"),
    ]
    assert ("--policy", "round_robin", "as asked") in given
    assert all(why for _, _, why in given)


def test_one_replica_that_fails_puts_the_other_back_and_leaves_the_router(serving: Trio) -> None:
    front = serving.pid("front")
    serving.write(decoding={"mode": "ar"})
    serving.spoil("other", exit=4, only_mode="ar")
    done = serving.ddops("deploy", "all", "--yes", "--json")
    assert done.returncode == 8
    told = outcomes(done)
    assert "out of memory (exit code 4)" in told["other"]["error"]
    assert told["other"]["error"].endswith("generation 1 serves again")
    assert told["stand"]["error"] == (
        "came up, but not those that it serves with\ngeneration 1 serves again"
    )
    assert told["front"]["error"] == "not started: what it stands before failed"
    assert serving.pid("front") == front
    assert serving.ddops("status", "stand", "other").returncode == 0


def test_a_router_that_does_not_come_up_takes_its_replicas_back(serving: Trio) -> None:
    serving.write(decoding={"mode": "ar"}, nobody=True)
    done = serving.ddops("deploy", "all", "--yes", "--json")
    assert done.returncode == 8
    told = outcomes(done)
    assert [told[box]["exit_code"] for box in ("front", "other", "stand")] == [8, 8, 8]
    assert all(one["error"].endswith("generation 1 serves again") for one in told.values())


def test_of_boxes_that_serve_as_one_none_is_deployed_when_one_cannot_be_planned(
    serving: Trio,
) -> None:
    serving.write(decoding={"mode": "ar"})
    path = serving.folder / "inventories" / "other.yaml"
    path.write_text(path.read_text("utf-8").replace("model.gguf", "missing.gguf"), "utf-8")
    done = serving.ddops("deploy", "all", "--json")  # nobody answers: all would be left alone
    told = outcomes(done)
    assert {one["exit_code"] for one in told.values()} == {6}
    assert "cannot be planned" in told["stand"]["error"]
    assert "cannot be planned" in told["front"]["error"]


def test_a_first_deploy_of_which_one_fails_leaves_none_running(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    trio.spoil("stand", exit=3)
    try:
        done = trio.ddops("deploy", "all", "--yes", "--json")
        assert done.returncode == 8
        assert outcomes(done)["other"]["error"].endswith("stopped")
        assert [trio.pid(box) for box in ("stand", "other", "front")] == [None, None, None]
    finally:
        ended(trio)
