"""Which differences of a box endanger which claims."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.bundle.danger import Danger, dangers, differences
from ddops.spec.drift import Drift
from ddops.spec.packages import Environment, Package
from tests.ddops import records

OF = records.matrix()
RUN = records.run(OF)
MADE = records.records(OF, troubled=True)


def environment(python: str = "CPython 3.11.7", **packages: str) -> Environment:
    listed = (
        Package(name=name.replace("_", "-"), version=version, record_sha256="a" * 64)
        for name, version in packages.items()
    )
    return Environment(python=python, platform="Linux", packages=tuple(listed))


def facts(**system: Any) -> dict[str, Any]:
    return {**records.FACTS, "system": {**records.FACTS["system"], **system}}


def judged(
    box: dict[str, Any] | None = None,
    was: Environment | None = None,
    now: Environment | None = None,
) -> list[Danger]:
    found = differences(RUN, was, box or facts(), now or environment())
    return list(dangers(RUN, MADE, found))


def test_the_same_box_endangers_nothing() -> None:
    same = environment(torch="2.13.0")
    assert judged(was=same, now=same) == []


def test_what_nothing_depends_on_is_no_danger() -> None:
    box = facts(user="bob", disk_free=1, memory_available=2, pid1="init")
    assert judged(box, environment(rich="14.0"), environment(rich="15.0")) == []
    before, after = environment(nvidia_ml_py="13.590"), environment(nvidia_ml_py="13.615")
    assert judged(was=before, now=after) == []  # it reads the GPU, and computes nothing


def test_what_was_not_asked_for_then_and_who_installed_a_package_is_no_danger() -> None:
    was = environment(torch="2.13.0")
    installed = was.packages[0].model_copy(update={"record_sha256": "b" * 64})
    now = was.model_copy(update={"packages": (installed,)})
    assert judged(facts(glibc="2.36"), was, now) == []


@pytest.mark.parametrize(
    ("system", "matter"),
    [({"cpu": "another one"}, "speeds and answers"), ({"cores": 64}, "speeds")],
)
def test_another_processor_endangers_every_good_cell(system: dict[str, Any], matter: str) -> None:
    (one,) = judged(facts(**system))
    assert (one.matter, one.every) == (matter, True)
    assert "ddtree-b16.c4.r1" not in one.cells  # it failed: it claims no speed
    said = f"endangers the {matter} of every cell"
    assert str(one.finding).startswith(f"data/box-facts.json: system.{next(iter(system))} was ")
    assert str(one.finding).endswith(said)
    assert one.finding.level == "L4"
    assert any(claim.startswith("C=1: ") for claim in one.claims)


def test_a_gpu_that_was_not_there_is_a_danger() -> None:
    box = {**facts(), "gpus": [{"index": 0, "name": "H200", "driver": "580.1"}]}
    assert {one.drift.what for one in judged(box)} == {"gpus.0.name", "gpus.0.driver"}


def test_a_package_of_the_engine_is_named_with_both_versions() -> None:
    was, now = environment(torch="2.13.0", uvicorn="0.37"), environment(torch="2.12.0")
    found = {one.drift.what: one for one in judged(was=was, now=now)}
    assert found["torch"].matter == "speeds and answers"
    assert found["torch"].line == "torch was 2.13.0, on the box it is 2.12.0"
    assert found["uvicorn"].matter == "speeds"
    assert found["uvicorn"].finding.file == "data/environment.json"


def test_another_drafter_is_no_matter_to_autoregressive_cells() -> None:
    other = Drift(subject="weights", what="drafter", wanted="sha256 a", there="sha256 b")
    (one,) = dangers(RUN, MADE, [other])
    assert not one.every
    assert one.cells
    assert not any(cell.startswith("ar.") for cell in one.cells)
    assert "of ddtree-b4.c1.r1, " in one.finding.reason


def test_a_bundle_without_its_packages_is_judged_by_its_facts() -> None:
    assert judged(was=None, now=environment(torch="1.0")) == []
