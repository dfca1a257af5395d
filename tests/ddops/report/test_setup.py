"""How it was measured, in words: what a load asks beyond the usual, and how its client was."""

from __future__ import annotations

from typing import Any

from ddops.report.setup import moment, setup
from ddops.spec.matrix import Slo
from ddops.spec.record import Record
from ddops.spec.run import Run
from tests.ddops import records

OF = records.matrix()
RECORDS = [records.record(cell, OF) for cell in records.cells(OF)]


def said(run: Run, found: list[Record]) -> dict[str, str]:
    return dict(setup(run, found))


def with_load(**changes: Any) -> Run:
    run = records.run(OF)
    load = OF.load.model_copy(update=changes)
    return run.model_copy(update={"matrix": OF.model_copy(update={"load": load})})


def test_a_plain_load_says_nothing_of_what_it_lacks() -> None:
    assert said(records.run(OF), RECORDS)["load"].endswith("order repeated")


def test_requests_by_the_stream_are_told() -> None:
    text = said(with_load(requests_a_stream=4), RECORDS)["load"]
    assert " requests a cell (4 a stream if more) after " in text


def test_slo_and_what_is_not_measured_are_told() -> None:
    run = with_load(settle_s=20.0, drain_s=5.0, slo=Slo(ttft_s=0.5, tpot_s=0.05))
    text = said(run, RECORDS)["load"]
    assert "; measured from 20 s on to 5 s before the end" in text
    assert text.endswith("; SLO ttft_s 0.5, tpot_s 0.05")


def test_the_file_of_send_times_is_told_by_its_hash() -> None:
    run = records.run(OF)
    prompts = run.prompts.model_copy(update={"trace_sha256": "f" * 64})
    text = said(run.model_copy(update={"prompts": prompts}), RECORDS)["load"]
    assert text.endswith(f"; times of sending from sha256 {'f' * 12}")


def test_a_client_that_was_too_slow_is_told() -> None:
    lag = RECORDS[0].metrics.ttft_s if RECORDS[0].metrics else None
    changes = {"client_lag_s": lag, "client_cores": 0.93, "warnings": ("the client ...",)}
    text = said(records.run(OF), [RECORDS[0].model_copy(update=changes), *RECORDS[1:]])["client"]
    assert "its busiest process used at most 0.93 of a core" in text
    assert "1 of 8 records say that it was too slow" in text


def test_a_command_comes_with_its_time_and_the_beginning_of_its_commit() -> None:
    run = records.run(OF)
    began = run.sessions[0].model_copy(
        update={"started_at": "2026-11-30T08:54:55+02:00", "commit": f"{'ab' * 20}+dirty"}
    )
    text = said(run.model_copy(update={"sessions": (began,)}), RECORDS)["command"]
    assert "(2026-11-30 06:54 UTC, " in text
    assert text.endswith("commit abababababab+dirty)")
    assert moment("at noon") == "at noon"
