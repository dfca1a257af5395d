"""What differs between two bundles has a line, and nothing else has."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.bundle.difference import differences
from ddops.bundle.recheck import Opened
from ddops.spec.matrix import Cell
from ddops.spec.packages import Environment, Package
from ddops.spec.record import Record
from tests.ddops import records

OF = records.matrix()


def opened(**changes: Any) -> Opened:
    """A whole bundle; `run` and `info` are changes of theirs."""
    run = records.run(OF)
    info = records.told(run)
    cells = [Cell(variant=variant, concurrency=1, repeat=1) for variant in OF.variants]
    return Opened(
        info=info.model_copy(update=changes.get("info", {})),
        run=run.model_copy(update=changes.get("run", {})),
        records=changes.get("records", {c.id: records.record(c, OF) for c in cells}),
        redactions=(),
        environment=changes.get("environment"),
        findings=(),
    )


def lines(**changes: Any) -> list[str]:
    """Of a bundle against the same with `changes`."""
    found = differences(opened(), opened(**changes))
    return [f"{one.subject} {one.what}: {one.wanted} -> {one.there}" for one in found]


def facts(**system: Any) -> dict[str, Any]:
    return {"box_facts": {**records.FACTS, "system": {**records.FACTS["system"], **system}}}


def test_a_bundle_does_not_differ_from_itself() -> None:
    assert lines() == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"info": {"commit": "abc"}}, "ddops commit: none -> abc"),
        ({"run": facts(kernel="6.12.0")}, "box system.kernel: 6.1.0 -> 6.12.0"),
        (
            {"run": {"box_facts": {**records.FACTS, "gpus": [{"name": "H200"}]}}},
            "box gpus.0.name: none -> H200",
        ),
        (
            {"run": {"found": records.deployment(OF.variants[2])}},
            "deployment decoding.budget: 16 -> 8",
        ),
        (
            {"run": {"matrix": OF.model_copy(update={"concurrency": (1,)})}},
            "matrix concurrency: (1, 4) -> (1,)",
        ),
    ],
)
def test_what_may_explain_a_number_has_a_line(changes: dict[str, Any], line: str) -> None:
    assert line in lines(**changes)


def test_facts_of_the_moment_are_no_difference() -> None:
    assert lines(run=facts(memory_available=1, disk_free=2)) == []


def test_another_model_is_told_apart_from_the_deployment() -> None:
    found = records.run(OF).found
    weights = found.model.weights.model_copy(update={"sha256": "6" * 64})
    model = found.model.model_copy(update={"weights": weights})
    assert lines(run={"found": found.model_copy(update={"model": model})}) == [
        f"model weights.sha256: {'5' * 64} -> {'6' * 64}"
    ]


def test_variants_are_compared_by_name() -> None:
    turned = OF.model_copy(update={"variants": OF.variants[::-1]})
    assert lines(run={"matrix": turned}) == []


def test_packages_are_compared_where_both_know_them() -> None:
    def having(version: str) -> Environment:
        package = Package(name="torch", version=version, record_sha256=None)
        return Environment(python="3.11", platform="linux", packages=(package,))

    assert lines(environment=having("2.13.0")) == []
    pair = differences(*(opened(environment=having(v)) for v in ("2.12.0", "2.13.0")))
    assert [(one.what, one.wanted, one.there) for one in pair] == [("torch", "2.12.0", "2.13.0")]


def test_results_are_compared_cell_by_cell() -> None:
    given = dict(opened().records)
    bad = given["ar.c1.r1"].cell
    slow = given["ddtree-b8.c1.r1"]
    assert slow.metrics
    speed = slow.metrics.output_tok_s
    metrics = slow.metrics.model_copy(update={"output_tok_s": speed / 2})
    changed: dict[str, Record] = {
        **{cell: record for cell, record in given.items() if cell != "ddtree-b4.c1.r1"},
        "ar.c1.r1": records.failed(bad, OF),
        "ddtree-b8.c1.r1": slow.model_copy(update={"metrics": metrics}),
    }
    assert lines(records=changed) == [
        "result ar.c1.r1: ok -> failed: illegal-access",
        "result ddtree-b4.c1.r1: ok -> not measured",
        f"result ddtree-b8.c1.r1 output tok/s: {speed:.1f} -> {speed / 2:.1f} (-50.0%)",
    ]
