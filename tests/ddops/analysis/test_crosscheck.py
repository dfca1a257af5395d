"""Two clients of the same load: where they agree, and what the other one defines otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.analysis.crosscheck import Line, crosscheck
from ddops.spec.foreign import Foreign, Stated
from ddops.spec.record import Record, Spread
from ddops.spec.tool import Tool
from tests.ddops import records

OF = records.matrix()
RECORD = records.record(records.cells(OF)[2], OF)  # ddtree-b4 at C=1


def stated(spread: Spread | None, times: float = 1.0) -> Stated:
    assert spread is not None
    return Stated(mean=spread.mean * times, p50=spread.p50 * times)


def alike(tool: Tool = "vllm", of: Record = RECORD, **changes: Any) -> Foreign:
    """What a client that measures as we do would state of the same cell."""
    ours = of.metrics
    assert ours is not None
    told = Foreign(
        tool=tool,
        tool_version="1",
        file="f.json",
        sha256="0" * 64,
        model=of.deployment.model.name,
        concurrency=1,
        completed=ours.completed,
        failed=0,
        output_tokens=ours.completion_tokens,
        duration_s=ours.duration_s,
        output_tok_s=ours.output_tok_s,
        requests_s=ours.requests_s,
        concurrency_achieved=ours.concurrency_achieved,
        ttft_s=stated(ours.ttft_s),
        tpot_s=stated(ours.tpot_s),
        itl_s=stated(ours.itl_s),
        e2e_s=stated(ours.e2e_s),
        accept=ours.accept,
    )
    return told.model_copy(update=changes)


def verdicts(result: Foreign) -> dict[str, str]:
    return {line.metric: line.verdict for line in crosscheck(RECORD, result).lines}


@pytest.mark.parametrize("tool", ["aiperf", "sglang", "vllm"])
def test_equal_figures_agree(tool: Tool) -> None:
    found = crosscheck(RECORD, alike(tool))
    assert {line.verdict for line in found.lines} == {"agrees"}
    assert len(found.lines) == 9
    assert found.otherwise == ()


def test_three_percent_is_agreement_and_more_is_not() -> None:
    assert Line("tok/s", 100.0, 102.9, "").verdict == "agrees"
    assert Line("tok/s", 100.0, 103.1, "").verdict == "differs, and no definition says why"
    assert Line("tok/s", 100.0, 90.0, "why").verdict == "defined otherwise: why"


def test_a_definition_explains_what_differs_by_it() -> None:
    """With 2.2 tokens a chunk, a time between chunks is 2.2 times that between tokens."""
    assert RECORD.metrics is not None
    found = verdicts(alike("vllm", itl_s=stated(RECORD.metrics.itl_s, 2.2)))
    assert "between chunks" in found["ITL p50 ms"]
    assert "between chunks" in found["ITL mean ms"]
    assert found["TPOT p50 ms"] == "agrees"


def test_a_difference_that_no_definition_explains_is_left_open() -> None:
    assert RECORD.metrics is not None
    found = verdicts(alike("vllm", tpot_s=stated(RECORD.metrics.tpot_s, 1.1)))
    assert found["TPOT p50 ms"] == "differs, and no definition says why"


def test_another_load_is_told() -> None:
    other = alike(completed=3, output_tokens=3 * 10, failed=1, model="another")
    assert crosscheck(RECORD, other).otherwise == (
        "3 requests, here 6",
        "10.0 tokens an answer, here 48.0",
        "1 requests failed",
        "model another, here smollm2-135m-instruct",
    )


def test_a_client_that_did_not_keep_its_concurrency_is_told() -> None:
    ours = RECORD.metrics
    assert ours is not None
    slow = alike(concurrency_achieved=0.7 * ours.concurrency_achieved)
    assert crosscheck(RECORD, slow).otherwise == ("0.7 requests in flight, here 1.0",)


def test_a_figure_that_one_side_lacks_has_no_line() -> None:
    assert "accept" not in verdicts(alike(accept=None))
    assert "e2e p50 ms" not in verdicts(alike(e2e_s=Stated()))
