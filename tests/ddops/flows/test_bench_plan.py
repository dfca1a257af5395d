"""What a bench says before it begins: cells, time by earlier records, variants that break rules."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.ddops.flows.bench_machine import BenchMachine

AXES = {
    "variants": [],
    "axes": {"mode": ["ar", "ddtree"], "budget": 8},
    "exclude": [{"mode": "ddtree", "concurrency": 2}],
    "cooldown_s": 0.01,
    "again": True,
}
RULE = {
    "name": "small-trees",
    "when": "engine == 'ddtree'",
    "require": "budget <= 4 or mode == 'ar'",
    "instead": "a budget of 4",
    "why": "this box was seen to fail above 4",
    "source": "this test",
    "sure": "measured",
}
ORDER = ["ar.c1.r1", "ar.c2.r1", "ddtree-b8.c1.r1", "ar.c1.r1.again"]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchMachine]:
    """Measured once, as axes say, with a last look at the first cell."""
    made = BenchMachine(tmp_path_factory.mktemp("planned"))
    try:
        made.matrix(**AXES)
        done = made.bench("--json")
        assert done.returncode == 0, done.stderr
        (made.folder / "said.json").write_text(done.stdout)
        yield made
    finally:
        made.close()


def planned(box: BenchMachine, *options: str) -> dict[str, object]:
    argv = ("bench", "stand", "--matrix", "small.yaml", "--dry-run", "--json", *options)
    done = box.ddops(*argv)
    assert done.returncode == 0, done.stderr
    said: dict[str, object] = json.loads(done.stdout)
    return said


def test_axes_are_measured_without_what_is_excluded_and_the_first_cell_twice(
    box: BenchMachine,
) -> None:
    assert box.good == sorted(ORDER)
    again, first = box.record("ar.c1.r1.again"), box.record("ar.c1.r1")
    assert again.started_at > first.started_at
    assert again.cell.again


def test_the_last_look_is_told_beside_the_table_and_is_no_row_of_it(box: BenchMachine) -> None:
    said = json.loads((box.folder / "said.json").read_text())
    assert [row["cell"] for row in said["cells"]] == ORDER[:3]
    assert set(said["steady"]) == {"steady", "change"}
    before, after = (box.record(name).metrics for name in ("ar.c1.r1", "ar.c1.r1.again"))
    assert before is not None and after is not None
    assert said["steady"]["change"] == after.output_tok_s / before.output_tok_s - 1
    shown = box.bench()
    assert "the box" in shown.stderr
    assert "ar.c1.r1 made" in shown.stderr
    assert "ar.c1.r1 made" in (box.ddops("report", str(box.run)).stderr)


def test_the_time_is_told_by_what_the_box_did_before(box: BenchMachine) -> None:
    box.matrix(**AXES, name="more", repeats=2)
    said = planned(box)
    assert said["estimated_from_records"] == 7
    known = said["estimate_s"]
    unknown = planned(box, "--out", "elsewhere")
    assert unknown["estimated_from_records"] == 0
    assert isinstance(known, float) and isinstance(unknown["estimate_s"], float)
    text = box.ddops("bench", "stand", "--matrix", "small.yaml", "--dry-run").stdout
    assert "7 cells to measure, about 1 min (7 of 7 cells by earlier records of this box)" in text


def test_a_variant_that_breaks_a_rule_is_named_and_measured_all_the_same(
    box: BenchMachine,
) -> None:
    (box.folder / "rules").mkdir()
    (box.folder / "rules" / "mine.yaml").write_text(yaml.safe_dump({"rules": [RULE]}))
    box.matrix(**AXES, name="ruled")
    said = planned(box)["broken_rules"]
    assert said == [
        "variant `ddtree-b8` breaks rule `small-trees`: this box was seen to fail above 4; "
        "it is measured all the same"
    ]
    warned = box.bench("--cells", "ddtree-b8.*", "--dry-run")
    assert "warning: variant `ddtree-b8` breaks rule `small-trees`" in warned.stderr
