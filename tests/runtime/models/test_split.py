"""What a rank reads of a checkpoint: parts that together are the whole, and no more of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ddtree.config import ModelShape
from ddtree.layers.decoder import DecoderLayer
from ddtree.layers.experts import SparseMlp
from ddtree.models.errors import ModelError
from ddtree.models.folder import FolderWeights
from ddtree.models.hf_config import target_shape
from ddtree.models.llama import Llama, target_shapes
from ddtree.models.split import Share, Split, rule_of
from ddtree.models.weights import Part
from ddtree.parallel.group import Group
from tests.runtime.engine.test_families import LATENT, MIXTURE
from tests.runtime.models import test_deepseek as kimi
from tests.runtime.models import test_folder as llama
from tests.runtime.models.tensors import random_tensors

LIKE = torch.empty(0)
QUERY, KEY, VALUE, OUTPUT, UP, DOWN = (
    *(f"self_attn.{name}_proj.weight" for name in "qkvo"),
    *(f"mlp.{name}_proj.weight" for name in ("up", "down")),
)


def shares(weights: FolderWeights, shape: ModelShape, size: int) -> list[Share]:
    return [Share(weights, shape, Split(Group(rank, size))) for rank in range(size)]


def test_every_name_of_a_family_has_the_rule_of_its_kind() -> None:
    rules = {name: rule_of(name) for name in target_shapes(LATENT) | target_shapes(MIXTURE)}
    assert rules["embed_tokens.weight"] == rules["lm_head.weight"] == "column"
    assert rules[f"layers.0.{QUERY}"] == "column"
    assert rules[f"layers.3.{KEY}"] == rules[f"layers.0.{VALUE}"] == "kv"
    assert rules[f"layers.2.{OUTPUT}"] == rules[f"layers.0.{DOWN}"] == "row"
    assert rules["layers.1.mlp.experts.7.down_proj.weight"] == "row"
    assert rules["layers.1.mlp.shared_experts.up_proj.weight"] == "column"
    for whole in (
        "mlp.gate.weight",
        "self_attn.kv_a_proj_with_mqa.weight",
        "input_layernorm.weight",
    ):
        assert rules[f"layers.1.{whole}"] is None
    assert rules["norm.weight"] is None


def test_the_parts_of_all_ranks_are_the_whole(tmp_path: Path) -> None:
    weights = FolderWeights(llama.write(tmp_path / "m", llama.TENSORS, shards=3))
    shape = target_shape(tmp_path, llama.CONFIG)
    for name, whole in llama.TENSORS.items():
        parts = [share.read(name) for share in shares(weights, shape, 2)]
        assert all(part.is_contiguous() for part in parts)
        rule = rule_of(name)
        if rule is None:
            assert all(part.equal(whole) for part in parts)
        else:
            assert torch.cat(parts, 1 if rule == "row" else 0).equal(whole)


def test_ranks_beyond_the_key_heads_read_the_same_one(tmp_path: Path) -> None:
    weights = FolderWeights(llama.write(tmp_path / "m", llama.TENSORS))
    shape = target_shape(tmp_path, llama.CONFIG)
    name = f"layers.0.{KEY}"
    first, second = llama.TENSORS[name].chunk(2)  # of two heads
    read = [share.read(name) for share in shares(weights, shape, 4)]
    assert all(
        part.equal(head) for part, head in zip(read, (first, first, second, second), strict=True)
    )
    assert Split(Group(3, 4)).held(shape).num_kv_heads == 1


def test_parts_of_int4_and_int8_are_those_of_what_they_stand_for(tmp_path: Path) -> None:
    stored, exact = kimi.published()
    name = "layers.1.mlp.experts.4.gate_proj.weight"  # [32, 64], groups of 32
    weights = FolderWeights(kimi.write(tmp_path / "int4", stored))
    for part, wanted in (
        (Part(0, 8, 16), exact[name][8:16]),
        (Part(1, 0, 32), exact[name][:, :32]),
        (Part(1, 32, 64), exact[name][:, 32:]),
    ):
        assert weights.read_part(name, part).float().equal(wanted)
    with pytest.raises(ModelError, match="columns 16 to 32 cut a group of scales in two"):
        weights.read_part(name, Part(1, 16, 32))

    name = f"layers.0.{UP}"
    steps = torch.randint(-127, 128, (48, 32), dtype=torch.int8)
    scaled = llama.TENSORS | {name: steps, f"{name}_scale": torch.rand(48)}
    weights = FolderWeights(llama.write(tmp_path / "int8", scaled))
    whole = weights.read(name)
    assert weights.read_part(name, Part(0, 24, 48)).equal(whole[24:])
    assert weights.read_part(name, Part(1, 16, 32)).equal(whole[:, 16:])


@pytest.mark.parametrize("shape", [MIXTURE, LATENT], ids=["mixture", "latent"])
def test_a_rank_with_whole_experts_holds_its_own_and_every_router(shape: ModelShape) -> None:
    weights = random_tensors(target_shapes(shape), seed=1)
    target = Llama(shape, weights, LIKE, Split(Group(1, 2), whole_experts=True))
    assert shape.experts is not None
    half = shape.experts.count // 2
    last = target.layers[-1]
    assert isinstance(last, DecoderLayer)
    layer = last.mlp
    assert isinstance(layer, SparseMlp)
    assert layer.held == range(half, 2 * half)
    named = f"layers.{shape.num_layers - 1}.mlp.experts.{half}.down_proj.weight"
    assert isinstance(layer.down, torch.Tensor)
    assert layer.down.shape[0] == half
    assert layer.down[0].equal(weights.read(named))
    assert layer.router.gate.out_features == shape.experts.count


def test_what_does_not_divide_is_refused_by_number() -> None:
    assert LATENT.experts is not None

    def refused(shape: ModelShape, split: Split) -> ModelError:
        with pytest.raises(ModelError) as caught:
            Llama(shape, random_tensors(target_shapes(shape), seed=1), LIKE, split)
        return caught.value

    error = refused(LATENT, Split(Group(0, 3)))
    assert "4 attention heads" in error.what
    assert "cannot be shared out to 3 ranks" in error.what
    odd = replace(LATENT, experts=replace(LATENT.experts, count=7, sigmoid=None))
    assert "7 experts" in refused(odd, Split(Group(0, 2), whole_experts=True)).what
    dense = replace(MIXTURE, experts=None, num_kv_heads=4, num_heads=12)
    assert "4 key and value heads" in refused(dense, Split(Group(0, 6))).what
    error = refused(dense, Split(Group(0, 2), whole_experts=True))
    assert (error.what, error.hint) == ("has no experts to share out", "give --tp 2 for --ep")


def test_a_rank_reads_nothing_of_what_others_hold(tmp_path: Path) -> None:
    read: list[tuple[str, Part | None]] = []
    weights = FolderWeights(kimi.write(tmp_path / "m", kimi.published()[0]))
    real: Callable[[str, Part | None], torch.Tensor] = weights.read_part

    def spied(name: str, part: Part | None) -> torch.Tensor:
        read.append((name, part))
        return real(name, part)

    weights.read_part = spied  # type: ignore[method-assign]
    Llama(kimi.SHAPE, weights, LIKE, Split(Group(1, 2), whole_experts=True))
    experts = {name.split(".")[4] for name, _ in read if ".experts." in name}
    assert experts == {"3", "4", "5"}
    assert ("lm_head.weight", Part(0, 32, 64)) in read
    assert (f"layers.0.{OUTPUT}", Part(1, 32, 64)) in read
    assert len(read) == len(set(read)), "a tensor is read twice"
