"""Uniform draws are fair: in every layer, for nodes and rows that share their tokens."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest
import torch

from ddtree.models.packed import unpack
from ddtree.models.weights import Shapes
from ddtree.ops.experts.packed import LANES
from ddtree.speculate.step import StepShape, step
from ddtree.stepbench import random_weights, routing
from ddtree.stepbench.measure import Bench, Case, random_models
from ddtree.stepbench.random_weights import RandomWeights
from ddtree.stepbench.routing import Hits, count_hits
from ddtree.stepbench.shapes import Pair
from tests.runtime.stepbench.test_rank import CPU, small

HIDDEN = 128
CONTEXT = 40


def deep() -> Pair:
    """All layers but the first draw 4 of 96 experts."""
    pair = small()
    assert pair.target.experts is not None
    experts = replace(pair.target.experts, count=96, active=4, intermediate_size=32)
    target = replace(pair.target, hidden_size=HIDDEN, num_layers=10, experts=experts)
    layers = replace(pair.drafter.layers, hidden_size=HIDDEN)
    return Pair(target, replace(pair.drafter, layers=layers), int4=True)


def hits_of_a_step(monkeypatch: pytest.MonkeyPatch, batch: int, budget: int) -> Hits:
    """Its context is so loud that few layers give nodes as much in common as many do."""
    monkeypatch.setattr(random_weights, "SPREAD", 0.02 * sqrt(7168 / HIDDEN))  # Kimi-K2.6's gain
    torch.manual_seed(0)
    bench = Bench(random_models(deep(), torch.float32, CPU), batch=batch, context=CONTEXT)
    bench.pools.target.kv.mul_(5)
    assert bench.models.drafter is not None
    rows = bench._rows(Case(batch, budget, CONTEXT))
    depth = bench.models.drafter.shape.depth
    shape = StepShape("ddtree", budget, budget, depth, longest=CONTEXT)
    hits = count_hits(bench.target, lambda: step(rows, bench.models, bench.pools, shape))
    assert hits is not None
    return hits


@pytest.mark.parametrize(("batch", "budget"), [(1, 16), (2, 8)], ids=str)
def test_nodes_of_all_layers_and_rows_draw_fairly(
    monkeypatch: pytest.MonkeyPatch, batch: int, budget: int
) -> None:
    with torch.inference_mode():
        hits = hits_of_a_step(monkeypatch, batch, budget)
    assert hits.mean == pytest.approx(hits.fair, rel=0.05)
    assert hits.least > 0.8 * hits.fair, "in no layer far fewer"


def test_nodes_draw_alike_where_their_own_is_as_large_as_what_layers_add(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "APART", 1.0)
    with torch.inference_mode():
        hits = hits_of_a_step(monkeypatch, 1, 16)
    assert hits.mean < 0.92 * hits.fair


def test_int4_numbers_have_no_mean_and_the_spread_of_others() -> None:
    name = "layers.1.mlp.experts.0.up_proj.weight"
    shapes: Shapes = {name: (256, 8 * LANES)}
    weights = RandomWeights(shapes, torch.float32, CPU, int4=True)
    stored = weights.read_int4(name, None)
    assert stored is not None
    numbers = unpack(stored.words).float()
    assert set(numbers.flatten().tolist()) == set(range(-7, 8))
    assert abs(numbers.mean()) < 0.06, "three standard deviations of such a mean"
    assert weights.read(name).std() == pytest.approx(random_weights.SPREAD, rel=0.02)
