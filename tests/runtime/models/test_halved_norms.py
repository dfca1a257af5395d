"""Norms that are halved: the same model, to a few roundings, in whatever family has some."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ddtree.config import ModelShape
from ddtree.layers import linear
from ddtree.layers.decoder import DecoderLayer
from ddtree.models import assemble
from ddtree.models.llama import Llama, target_shapes
from ddtree.models.split import UNSPLIT, Split
from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.linear import begins_norms
from ddtree.parallel.group import Group
from tests.runtime.engine.test_families import LATENT, MIXTURE
from tests.runtime.models.session import Session
from tests.runtime.models.tensors import random_tensors
from tests.runtime.models.test_dflash import LAYERS
from tests.runtime.ops.interpreted import interpreted

WIDER = replace(LAYERS, num_layers=2, head_dim=16, hidden_size=40)  # heads that kernels take
TOKENS = torch.arange(42).view(2, 21)


@pytest.fixture
def halved(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As on a GPU: a weight in oneDNN's layout has no half of a norm."""
    monkeypatch.setattr(assemble, "begins_norms", lambda like, width: True)
    monkeypatch.setattr(linear, "packs", lambda weight: False)
    return monkeypatch


def model(shape: ModelShape, split: Split = UNSPLIT) -> Llama:
    return Llama(shape, random_tensors(target_shapes(shape), seed=1), torch.empty(0), split)


def halves(target: Llama) -> list[tuple[bool, bool]]:
    """Of each layer: whether its first and its second norm may be halved."""
    layers = [layer for layer in target.layers if isinstance(layer, DecoderLayer)]
    return [(layer.attention_norm.halves, layer.mlp_norm.halves) for layer in layers]


@pytest.mark.parametrize("shape", [LAYERS, MIXTURE, LATENT], ids=["dense", "mixture", "latent"])
def test_a_model_with_halved_norms_is_the_same_model(
    shape: ModelShape, halved: pytest.MonkeyPatch
) -> None:
    found = Session(model(shape), rows=2).logits(TOKENS)
    halved.setattr(assemble, "begins_norms", begins_norms)
    plain = model(shape)
    assert not any(map(any, halves(plain)))
    torch.testing.assert_close(found, Session(plain, rows=2).logits(TOKENS), atol=1e-4, rtol=1e-4)


@interpreted
def test_kernels_halve_norms_as_the_references_do(halved: pytest.MonkeyPatch) -> None:
    target = model(WIDER)
    wanted = Session(target, rows=2).logits(TOKENS)
    with kernels_everywhere():
        found = Session(target, rows=2).logits(TOKENS)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_where_ranks_or_experts_come_between_norms_are_whole(halved: pytest.MonkeyPatch) -> None:
    assert halves(model(LAYERS)) == [(True, True)] * 3
    mixed = [second for _, second in halves(model(MIXTURE))]
    assert mixed == [False, True, False, False]  # one has no experts
    assert not any(map(any, halves(model(LAYERS, Split(Group(0, 2))))))


def test_norms_are_halved_on_a_gpu_in_bfloat16_alone() -> None:
    assert not begins_norms(torch.empty(0, dtype=torch.bfloat16), 576)
