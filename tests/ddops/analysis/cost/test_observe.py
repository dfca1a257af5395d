"""Records become measured steps, or are left out with a reason."""

from __future__ import annotations

import pytest

from ddops.analysis.cost.observe import Observed, of_run
from ddops.spec.matrix import Cell
from ddops.spec.record import Record
from tests.ddops import records

MATRIX = records.matrix()


def observed(
    measured: list[Record] | None = None, gpus: list[dict[str, str]] | None = None
) -> Observed:
    run = records.run(MATRIX)
    facts = {**run.box_facts, "gpus": gpus or []}
    return of_run(run.model_copy(update={"box_facts": facts}), measured or records.records(MATRIX))


def test_a_step_of_a_record_is_the_planted_one() -> None:
    seen = {one.step.name: one for one in observed().timed}
    for name, step_s in records.STEP_S.items():
        assert seen[f"{name}.c1.r1"].seconds == pytest.approx(step_s, rel=0.05)


def test_nodes_are_those_of_all_requests_in_flight() -> None:
    seen = {one.step.name: one.step for one in observed().timed}
    tree, plain = seen["ddtree-b16.c1.r1"], seen["ar.c1.r1"]
    assert tree.nodes == pytest.approx(17 * tree.requests)
    assert (plain.nodes, plain.drafts, tree.drafts) == (plain.requests, False, True)


def test_prefills_of_others_come_only_where_there_are_others() -> None:
    seen = {one.step.name: one.step for one in observed().timed}
    assert seen["ddtree-b8.c1.r1"].prefills == 0
    assert seen["ddtree-b8.c4.r1"].prefills > 0


def test_a_first_wave_that_is_all_there_is_has_no_prefills_between() -> None:
    cell = Cell(variant=MATRIX.variants[2], concurrency=records.REQUESTS, repeat=1)
    (one,) = observed([records.record(cell, MATRIX)]).timed
    assert one.step.prefills == 0


def test_what_failed_or_is_invalid_or_adapts_is_left_out_with_its_reason() -> None:
    cells = [
        Cell(variant=MATRIX.variants[3], concurrency=4, repeat=1),
        Cell(variant=MATRIX.variants[2], concurrency=4, repeat=1),
        Cell(
            variant=MATRIX.variants[2].model_copy(update={"adaptive": True}),
            concurrency=1,
            repeat=1,
        ),
    ]
    made = [
        records.failed(cells[0], MATRIX),
        records.invalid(cells[1], MATRIX),
        records.record(cells[2], MATRIX),
    ]
    seen = observed(made)
    assert seen.timed == ()
    assert [text.split(": ", 1)[1] for text in seen.left_out] == [
        "failed: illegal-access",
        "invalid: garbage",
        "adaptive: its nodes change from step to step",
    ]


def test_accept_is_kept_by_budget() -> None:
    assert observed().accept == pytest.approx({4: 2.2, 8: 2.7, 16: 3.1}, rel=0.1)


def test_bytes_are_counted_where_gpu_and_shape_are_known() -> None:
    shape = {
        "family": "qwen3",
        "num_layers": 36,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "vocab_size": 151936,
        "num_heads": 32,
        "num_kv_heads": 8,
        "head_dim": 128,
    }
    cell = Cell(variant=MATRIX.variants[0], concurrency=1, repeat=1)
    plain = records.record(cell, MATRIX)
    assert plain.engine is not None
    info = {**plain.engine.info, "dtype": "bfloat16", "model": {"shape": shape}}
    told = records.record(cell, MATRIX, engine=plain.engine.model_copy(update={"info": info}))
    h200 = [{"name": "NVIDIA H200"}]
    (with_shape,), (without,) = observed([told], h200).timed, observed([plain], h200).timed
    assert with_shape.step.bytes_s == pytest.approx(15.14e9 / 4.8e12, rel=0.01)
    assert without.step.bytes_s == 0
    assert observed([told]).timed[0].step.bytes_s == 0, "its memory is not known"


def test_a_listed_model_of_another_engine_is_spread_over_all_gpus_of_the_box() -> None:
    cell = Cell(variant=MATRIX.variants[2], concurrency=1, repeat=1)
    plain = records.record(cell, MATRIX)
    wished = plain.deployment
    kimi = wished.model_copy(
        update={
            "engine": "sglang",
            "model": wished.model.model_copy(update={"name": "kimi-k2.6"}),
        }
    )
    (one,) = observed(
        [plain.model_copy(update={"deployment": kimi})], [{"name": "NVIDIA B300 SXM6 AC"}] * 8
    ).timed
    assert one.step.nodes == pytest.approx(9, abs=0.5)
    assert one.step.bytes_s == pytest.approx(16.9e9 / 8e12, rel=0.03)


def test_gpus_of_two_kinds_have_no_bandwidth_of_their_own() -> None:
    assert observed(gpus=[{"name": "NVIDIA H200"}, {"name": "NVIDIA B300"}]).on is None
