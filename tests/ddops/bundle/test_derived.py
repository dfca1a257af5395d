"""Tables and claims for programs say what the report says."""

from __future__ import annotations

import json
from pathlib import Path

from ddops.analysis.repeats import groups
from ddops.bundle import derived
from ddops.flows.claims import claims
from tests.ddops import records


def test_a_table_has_a_row_for_each_record_and_says_what_made_it() -> None:
    of = records.matrix()
    said = json.loads(derived.tables(records.records(of, troubled=True), "7.1"))
    assert said["made_by"] == "ddops 7.1"
    assert [row["cell"] for row in said["rows"]][:2] == ["ar.c1.r1", "ar.c4.r1"]
    assert {row["verdict"] for row in said["rows"]} == {
        "ok",
        "failed: illegal-access",
        "invalid: garbage",
    }


def test_the_claims_of_a_bundle_are_borne_out_by_it(bundle: Path) -> None:
    found = claims(bundle / "data" / "claims.yaml")
    assert len(found) == 4
    assert all(one.holds for one in found)


def test_repeats_that_are_apart_widen_the_tolerance() -> None:
    of = records.matrix(repeats=3)
    text = derived.claims(groups(of, records.records(of)))
    assert text is not None
    assert "tolerance" in text


def test_where_nothing_has_a_ratio_there_is_no_claim() -> None:
    of = records.matrix()
    only = [record for record in records.records(of) if record.cell.variant.mode == "ar"]
    assert derived.claims(groups(of, only)) is None
