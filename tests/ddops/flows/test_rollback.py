"""`ddops rollback`: an earlier generation serves again, or the current one goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddops.spec.generation import NONE, Generation, Generations
from ddops.spec.load import load_box
from tests.ddops.machine import Machine


def deployed(machine: Machine, budget: int) -> None:
    machine.inventory(decoding=decoding(budget))
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 0, done.stderr


def decoding(budget: int) -> dict[str, Any]:
    return {"mode": "ddtree", "budget": budget, "drafter": {"source": "bundled"}}


def listed(machine: Machine) -> tuple[int, list[int]]:
    said = json.loads(machine.ddops("rollback", "stand", "--list", "--json").stdout)
    return said["current"], [one["number"] for one in said["generations"]]


def test_the_one_before_serves_again_and_the_inventory_is_drift(machine: Machine) -> None:
    deployed(machine, 16)
    unit = (machine.box_home / "unit.json").read_text("utf-8")
    deployed(machine, 8)
    done = machine.ddops("rollback", "stand", "--yes")
    assert done.returncode == 0, done.stderr
    assert "generation 1 serves again; it said: Paris" in done.stdout
    assert (machine.box_home / "unit.json").read_text("utf-8") == unit
    now = machine.status()
    assert (now["ready"], now["budget"]) == (True, 16)
    assert now["drift"] == ["decoding.budget: deployed 16, inventory 8"]
    assert listed(machine) == (1, [2, 1])
    assert machine.ddops("rollback", "stand", "2", "--yes").returncode == 0
    assert machine.status()["drift"] == []


def test_three_are_kept_and_the_next_deploy_gets_a_number_of_its_own(machine: Machine) -> None:
    for budget in (2, 4, 8, 16):
        deployed(machine, budget)
    assert listed(machine) == (4, [4, 3, 2])
    assert "ddtree-b8" in machine.ddops("rollback", "stand", "--list").stdout
    assert machine.ddops("rollback", "stand", "2", "--yes").returncode == 0
    deployed(machine, 32)
    assert listed(machine) == (5, [5, 4, 3])


def test_a_generation_that_serves_is_nothing_to_change(machine: Machine) -> None:
    deployed(machine, 8)
    done = machine.ddops("rollback", "stand", "1", "--yes")
    assert (done.returncode, done.stdout) == (0, "generation 1 serves\n")


def test_one_that_is_not_kept_is_refused_with_those_that_are(machine: Machine) -> None:
    nothing = machine.ddops("rollback", "stand", "--yes")
    assert nothing.returncode == 8
    assert "hint: `ddops deploy stand`" in nothing.stderr
    deployed(machine, 8)
    for words, what in ((["7"], "no generation 7"), ([], "no earlier generation")):
        done = machine.ddops("rollback", "stand", *words, "--yes")
        assert done.returncode == 2
        assert f"there is {what} on box `stand`; it keeps 1, 1 serves" in done.stderr


def test_a_dry_run_says_what_it_would_do(machine: Machine) -> None:
    deployed(machine, 16)
    deployed(machine, 8)
    tried = machine.ddops("rollback", "stand", "--dry-run")
    assert "write boxes/stand/unit.json" in tried.stdout
    assert "so that generation 1 serves" in tried.stdout
    assert machine.status()["budget"] == 8


def test_one_that_fails_gives_way_to_what_served(machine: Machine) -> None:
    machine.inventory(decoding={"mode": "ar"})
    assert machine.ddops("deploy", "stand", "--yes").returncode == 0
    deployed(machine, 8)
    machine.behave(exit=3, only_mode="ar")
    done = machine.ddops("rollback", "stand", "--yes")
    assert done.returncode == 8
    assert "what was deployed before runs again: generation 2" in done.stderr
    assert (machine.status()["ready"], listed(machine)[0]) == (True, 2)


def test_weights_that_are_gone_are_told_before_anything_is_changed(machine: Machine) -> None:
    other = machine.folder / "other.gguf"
    other.write_bytes(b"others")
    weights = {"source": f"file:{other}"}
    machine.inventory(model={"name": "other", "weights": weights})
    assert machine.ddops("deploy", "stand", "--yes").returncode == 0
    deployed(machine, 8)
    other.unlink()
    done = machine.ddops("rollback", "stand", "--yes")
    assert done.returncode == 6
    assert f"there is no {other}" in done.stderr
    assert machine.status()["ready"]


def test_a_python_that_is_gone_is_too(machine: Machine) -> None:
    deployed(machine, 16)
    old = machine.python.rename(machine.folder / "old-python")
    machine.python = machine.folder / "new-python"
    machine.python.write_text(old.read_text("utf-8"), "utf-8")
    machine.python.chmod(0o755)
    deployed(machine, 8)
    done = machine.ddops("rollback", "stand", "--yes")
    assert done.returncode == 5
    assert "the Python of generation 1 is no longer on box `stand`" in done.stderr
    assert machine.status()["budget"] == 8


def generation(**changes: Any) -> Generation:
    fields: dict[str, Any] = {
        "number": 0,
        "deployment": load_box("local").deployment,
        "unit": "u",
        "env_sha256": "",
        "unit_sha256": "",
        "environment": {"python": "", "platform": "", "packages": ()},
        "drivers": (),
        "deployed_at": "",
        "ddops_version": "",
    }
    return Generation.model_validate({**fields, **changes})


def numbers(generations: Generations) -> list[int]:
    return [one.number for one in generations.kept]


def test_the_same_unit_again_is_the_same_generation() -> None:
    once = NONE.proven(generation())
    twice = once.proven(generation(deployed_at="later"))
    assert (twice.current, numbers(twice)) == (1, [1])
    assert twice.serving == generation(number=1, deployed_at="later")


@pytest.mark.parametrize(("current", "kept"), [(4, [5, 4]), (3, [5, 4])])
def test_what_serves_is_never_thrown_away(current: int, kept: list[int]) -> None:
    three = Generations(
        current=current, kept=tuple(generation(number=n, unit=f"{n}") for n in (5, 4, 3))
    )
    again = three.proven(generation(unit=f"{current}"))
    assert again.current == current
    assert numbers(again) == [5, 4, 3]
    after = three.proven(generation(unit="new"))
    assert numbers(after) == [6, *kept]
