"""What the engine's step benchmark writes is what the cost model reads."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from ddops.analysis.cost.observe import of_document
from ddops.spec.cost import StepDocument
from ddtree.stepbench import report
from ddtree.stepbench.shapes import PAIRS, Pair
from tests.runtime.stepbench import test_rank as kimi


def tiny() -> Pair:
    pair = PAIRS["smollm2-135m"]
    target = replace(pair.target, num_layers=3, vocab_size=640)
    layers = replace(pair.drafter.layers, num_layers=1, vocab_size=640)
    return Pair(target, replace(pair.drafter, layers=layers, target_layer_ids=(0, 1)))


def test_a_step_document_of_the_engine_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAIRS, "tiny", tiny())
    wanted = report.Wanted("tiny", (1, 2), (0, 4), 40, torch.float32, torch.device("cpu"), 1)
    written = json.dumps(report.run(wanted))
    seen = of_document(StepDocument.model_validate_json(written))
    assert [one.step.name for one in seen.timed] == ["ar x 1", "4 x 1", "ar x 2", "4 x 2"]
    assert [one.step.nodes for one in seen.timed] == [1, 5, 2, 10]
    assert all(one.seconds > 0 and one.step.bytes_s > 0 for one in seen.timed)


def test_of_one_rank_the_cost_model_learns_of_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAIRS, "small", kimi.small())
    where = (torch.float32, torch.device("cpu"))
    written = json.dumps(report.run(report.Wanted("small", (1,), (0, 4), 20, *where, 1, rank_of=2)))
    document = StepDocument.model_validate_json(written)
    assert document.rank_of == 2
    assert [row.case.budget for row in document.steps] == [0, 4]
