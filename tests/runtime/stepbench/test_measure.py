"""The step benchmark times what it says, and its floor is the bytes of the shapes."""

import json
from dataclasses import replace

import torch

from ddtree.stepbench import report
from ddtree.stepbench.floor import floor
from ddtree.stepbench.shapes import PAIRS, Pair


def small() -> Pair:
    pair = PAIRS["smollm2-135m"]
    target = replace(pair.target, num_layers=4, vocab_size=640)
    layers = replace(pair.drafter.layers, num_layers=1, vocab_size=640)
    return Pair(target, replace(pair.drafter, layers=layers, target_layer_ids=(0, 2)))


def test_every_case_has_its_stages_and_a_ratio(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(PAIRS, "small", small())
    wanted = report.Wanted(
        "small", (1, 2), (0, 4), 40, torch.float32, torch.device("cpu"), repeats=2
    )
    document = json.loads(json.dumps(report.run(wanted)))
    assert [(s["case"]["batch"], s["case"]["budget"]) for s in document["steps"]] == [
        (1, 0), (1, 4), (2, 0), (2, 4),
    ]  # fmt: skip
    for row in document["steps"]:
        drafted = row["case"]["budget"] > 0
        names = ["draft", "tree", "verify", "accept", "commit"] if drafted else []
        assert list(row["stages_ms"]) == names
        assert row["step_ms"] > 0 and row["ratio"] > 0
    assert len(report.table(document).splitlines()) == 5


def test_the_floor_of_smollm2_is_its_weights() -> None:
    pair = PAIRS["smollm2-135m"]
    least = floor(pair.target, None, batch=1, context=0, itemsize=2)
    assert least.total == 134_515_008 * 2  # parameters of the public checkpoint, tied
    with_cache = floor(pair.target, None, batch=2, context=100, itemsize=2)
    assert with_cache.cache == 2 * 100 * 30 * 2 * 3 * 64 * 2


def test_drafting_reads_the_drafter_and_the_head_once_more() -> None:
    pair = PAIRS["smollm2-135m"]
    drafted = floor(pair.target, pair.drafter, batch=1, context=0, itemsize=2)
    assert drafted.drafter_weights == (19_361_152 + 49152 * 576) * 2  # notes of the drafter
