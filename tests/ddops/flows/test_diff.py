"""`ddops diff`: every kind of drift of a real service, each by its own name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ddops.host.process import Process
from tests.ddops.machine import Machine


def told(machine: Machine) -> list[tuple[str, str, str]]:
    done = machine.ddops("diff", "stand", "--json")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.returncode == (5 if found else 0), done.stderr
    return [(one["subject"], one["wanted"], one["there"]) for one in found]


@pytest.fixture
def served(machine: Machine) -> Machine:
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 0, done.stderr
    return machine


def test_nothing_deployed_is_no_drift(machine: Machine) -> None:
    done = machine.ddops("diff", "stand")
    assert done.returncode == 8
    assert "hint: `ddops deploy stand`" in done.stderr


def test_a_box_as_it_was_deployed_has_none(served: Machine) -> None:
    done = served.ddops("diff", "stand")
    assert (done.returncode, done.stdout) == (0, "no drift\n")


def test_a_changed_inventory_is_drift_of_the_deployment_and_of_the_unit(served: Machine) -> None:
    served.inventory(decoding={"mode": "ddtree", "budget": 8, "drafter": {"source": "bundled"}})
    assert ("deployment", "8", "16") in told(served)
    assert ("unit", '"8",', '"16",') in told(served)
    shown = served.ddops("diff", "stand").stdout
    assert re.search(r"deployment +decoding\.budget +8 +16", shown)


def test_a_unit_edited_by_hand_is_drift_until_the_process_runs_it_too(served: Machine) -> None:
    unit = served.box_home / "unit.json"
    unit.write_text(unit.read_text("utf-8").replace('"16"', '"4"'), "utf-8")
    found = told(served)
    assert ("unit", '"16",', '"4",') in found
    assert ("process", "--budget 4", "--budget 16") in found
    assert served.ddops("restart", "stand").returncode == 0
    assert told(served) == [("unit", '"16",', '"4",')]


def test_secrets_are_compared_and_never_shown(served: Machine) -> None:
    key = served.folder / "key"
    key.write_text("s3cret-of-the-box\n", "utf-8")
    served.inventory(serving={"port": served.port, "api_key_file": str(key)})
    assert served.ddops("deploy", "stand", "--yes").returncode == 0
    env = served.box_home / "env"
    env.write_text("DDTREE_API_KEY=other-s3cret\n", "utf-8")
    env.chmod(0o644)
    done = served.ddops("diff", "stand")
    assert done.returncode == 5
    assert "other ones" in done.stdout
    assert re.search(r"mode 600 +mode 644", done.stdout)
    assert "s3cret" not in done.stdout + done.stderr


def test_changed_weights_and_a_dead_process_are_drift(served: Machine) -> None:
    kept = served.model.read_bytes()
    served.model.unlink()
    assert ("weights", "there", "not there") in told(served)
    served.model.write_bytes(kept)
    keeper = Process.load(served.state()["keeper"])
    handle = keeper.handle() if keeper else None
    assert handle
    handle.kill()
    handle.wait()
    assert ("process", "running", "stopped") in told(served)


def test_a_package_that_came_later_is_drift(served: Machine) -> None:
    """Into the folder where the stand-in's Python finds its engine, so this test's own."""
    info = served.folder / "later" / "later_package-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: later-package\nVersion: 1.5\n")
    served.python.write_text(
        served.python.read_text("utf-8").replace('standin"', f'standin:{info.parent}"'), "utf-8"
    )
    assert told(served) == [("package", "not installed", "1.5")]
