"""`ddops bench` at a rate and by a trace, over a data set from disk, against an SLO."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

import pytest

from ddops.spec.run import Run
from tests.ddops.flows.bench_machine import BenchMachine

PACES = ("c2", "q20", "trace")
TIMES = [{"at_s": 5 + n * 0.05, "max_tokens": 9} for n in range(3)]
ASKED = [
    {"question_id": n, "category": "made-up", "turns": [f"Tell me of {n}.", "Go on."]}
    for n in range(8)
]


def lines(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchMachine]:
    """Measured once; the tests that use it leave it as it is."""
    made = BenchMachine(tmp_path_factory.mktemp("open"))
    try:
        (made.folder / "times.jsonl").write_text(lines(TIMES), "utf-8")
        (made.folder / "asked.jsonl").write_text(lines(ASKED), "utf-8")
        load = {
            "prompts": "asked.jsonl",
            "licence": "CC0-1.0",
            "sample": 5,
            "requests": 6,
            "warmup": 1,
            "max_tokens": 13,
            "slo": {"ttft_s": 30, "tpot_s": 1e-9},
        }
        made.matrix(concurrency=[2], rates=[20], trace="times.jsonl", load=load)
        done = made.bench()
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        made.close()


def test_every_pace_is_a_cell_and_is_resumed_like_one(measured: BenchMachine) -> None:
    assert measured.good == sorted(f"{v}.{p}.r1" for v in ("ar", "ddtree-b8") for p in PACES)
    before = measured.files
    assert "0 cells to measure" in measured.bench("--dry-run").stdout
    assert measured.files == before


def test_a_cell_at_a_rate_sends_on_time_and_is_compared_at_its_own_rate(
    measured: BenchMachine,
) -> None:
    record = measured.record("ddtree-b8.q20.r1")
    assert record.ok
    due = [trace.due for trace in record.traces if trace.due is not None]
    assert (len(due), min(due)) == (6, 0.0)
    assert max(due) == pytest.approx(5 / 20)
    assert record.metrics is not None and record.metrics.sent_late_s is not None
    assert record.metrics.sent_late_s.n == 6
    assert [gate.name for gate in record.gates] == ["garbage", "alone", "lossless"]
    assert (record.client_processes, record.cell.concurrency) == (1, 0)
    assert record.client_cores is not None


def test_a_trace_asks_what_its_lines_say(measured: BenchMachine) -> None:
    record = measured.record("ar.trace.r1")
    due = sorted(trace.due for trace in record.traces if trace.due is not None)
    assert due == pytest.approx([0.0, 0.05, 0.1])
    assert {trace.completion_tokens for trace in record.traces} == {9}
    assert record.trace_sha256 == hashlib.sha256(lines(TIMES).encode()).hexdigest()


def test_the_data_set_its_hash_and_its_licence_are_in_the_record(measured: BenchMachine) -> None:
    record = measured.record("ar.c2.r1")
    assert record.prompts_sha256 == hashlib.sha256(lines(ASKED).encode()).hexdigest()
    assert record.prompts_licence == "CC0-1.0"
    assert len({trace.prompt for trace in record.traces}) == 5
    run = Run.model_validate_json((measured.run / "run.json").read_bytes())
    assert (run.prompts.id, run.prompts.count) == ("asked", 5)


def test_goodput_is_of_the_answers_within_the_slo(measured: BenchMachine) -> None:
    """No token comes in a nanosecond, so not one answer keeps the limit."""
    found = measured.record("ar.q20.r1").metrics
    assert found is not None and found.requests_s is not None
    assert (found.completed, found.goodput_s) == (6, 0.0)
    assert found.requests_s > 0
    head, *rows = measured.bench().stdout.splitlines()
    assert "req/s" in head
    assert "in SLO/s" in head
    assert len(rows) == 6
    said = json.loads(measured.bench("--json").stdout)["cells"]
    assert [cell["pace"] for cell in said] == ["C=2", "20/s", "trace"] * 2
    assert all(cell["in_flight"] > 0 for cell in said)


def test_other_times_of_sending_are_another_measurement(measured: BenchMachine) -> None:
    path = measured.folder / "times.jsonl"
    path.write_text(lines(TIMES[:2]), "utf-8")
    try:
        refused = measured.bench()
    finally:
        path.write_text(lines(TIMES), "utf-8")
    assert refused.returncode == 2
    assert "was measured with another times of sending" in refused.stderr


def test_the_report_has_a_row_for_every_pace_and_the_bundle_holds(measured: BenchMachine) -> None:
    folder = str(measured.run)
    assert measured.ddops("report", folder).returncode == 0
    text = (measured.run / "report" / "report.md").read_text("utf-8")
    assert "| ddtree-b8 | 20/s |" in text
    assert "| ddtree-b8 | trace |" in text
    assert "20/s: ar answers " in text
    assert "0.00 of them within the SLO" in text
    out = measured.folder / "bundles"
    made = measured.ddops("bundle", "create", folder, "--out", str(out))
    assert made.returncode == 0, made.stderr
    (bundle,) = out.glob("*.tar.zst")
    verified = measured.ddops("bundle", "verify", str(bundle))
    assert verified.returncode == 0, verified.stderr


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"concurrency": []}, "name `concurrency`, `rates` or `trace`"),
        ({"rates": [0]}, "`concurrency` and `rates` are above 0"),
        (
            {"load": {"requests": 1, "warmup": 0, "max_tokens": 9, "slo": {}}},
            "name at least one of `ttft_s`",
        ),
    ],
)
def test_a_matrix_without_a_pace_or_a_limit_is_refused(
    measured: BenchMachine, changes: dict[str, object], complaint: str
) -> None:
    was = (measured.folder / "small.yaml").read_text("utf-8")
    try:
        measured.matrix(**changes)
        refused = measured.bench()
    finally:
        (measured.folder / "small.yaml").write_text(was, "utf-8")
    assert refused.returncode == 3
    assert complaint in refused.stderr
    assert "small.yaml:" in refused.stderr
