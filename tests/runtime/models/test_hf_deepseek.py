"""The config of Kimi-K2.5 and K2.6, its text part, and what of this family is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddtree.config import Experts, Latent, SigmoidRouting
from ddtree.models.errors import ModelError
from ddtree.models.hf_config import target_shape
from ddtree.models.llama import target_shapes
from tests.runtime.models.kimi_config import SEEING, TEXT

PATH = Path("config.json")
# The tensors of layer 1's first expert and of layer 0's attention, as the checkpoint names them
PUBLISHED = {
    "layers.0.self_attn.q_a_proj.weight": (1536, 7168),
    "layers.0.self_attn.q_a_layernorm.weight": (1536,),
    "layers.0.self_attn.q_b_proj.weight": (12288, 1536),
    "layers.0.self_attn.kv_a_proj_with_mqa.weight": (576, 7168),
    "layers.0.self_attn.kv_a_layernorm.weight": (512,),
    "layers.0.self_attn.kv_b_proj.weight": (16384, 512),
    "layers.0.self_attn.o_proj.weight": (7168, 8192),
    "layers.0.mlp.down_proj.weight": (7168, 18432),
    "layers.1.mlp.gate.weight": (384, 7168),
    "layers.1.mlp.gate.e_score_correction_bias": (384,),
    "layers.1.mlp.shared_experts.up_proj.weight": (2048, 7168),
    "layers.60.mlp.experts.383.down_proj.weight": (7168, 2048),
}


def test_the_text_part_of_a_seeing_model_is_the_shape() -> None:
    shape = target_shape(PATH, SEEING)
    assert shape == target_shape(PATH, TEXT)
    assert shape.latent is not None
    assert shape.latent == Latent(512, 64, 128, 128, 1536, shape.latent.scale)
    assert shape.experts == Experts(
        384, 8, 2048, True, (0,), shared_size=2048, sigmoid=SigmoidRouting(1, 1, 2.827)
    )
    assert (shape.head_dim, shape.cached) == (192, (1, 1, 576))


def test_yarn_changes_the_scores_and_not_the_angles() -> None:
    """0.1 ln(64) + 1 = 1.415888, squared over the root of 192; mscale over mscale_all_dim is 1."""
    shape = target_shape(PATH, TEXT)
    assert shape.latent is not None
    assert shape.rope_scaling is not None
    assert shape.latent.scale == pytest.approx(1.415888**2 / 192**0.5, rel=1e-6)
    assert shape.rope_scaling.amplitude == 1.0
    plain = {key: value for key, value in TEXT.items() if key != "rope_scaling"}
    unscaled = target_shape(PATH, plain).latent
    assert unscaled is not None
    assert unscaled.scale == 192**-0.5


def test_tensors_are_those_of_the_published_checkpoint() -> None:
    shapes = target_shapes(target_shape(PATH, SEEING))
    assert {name: shapes.get(name) for name in PUBLISHED} == PUBLISHED
    experts = [name for name in shapes if ".mlp.experts." in name]
    assert len(experts) == 60 * 384 * 3
    assert "layers.0.mlp.gate.weight" not in shapes


def test_queries_without_a_latent_are_projected_at_once() -> None:
    shapes = target_shapes(target_shape(PATH, TEXT | {"q_lora_rank": None}))
    assert shapes["layers.0.self_attn.q_proj.weight"] == (12288, 7168)
    assert "layers.0.self_attn.q_a_proj.weight" not in shapes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scoring_func": "softmax"}, "scoring_func 'softmax' is not supported, only 'sigmoid'"),
        ({"topk_method": "greedy"}, "topk_method 'greedy' is not supported"),
        ({"moe_layer_freq": 2}, "moe_layer_freq 2 is not supported"),
        ({"n_group": 5}, "8 of 384 experts cannot come from 1 of 5 groups"),
        ({"n_group": 96}, "8 of 384 experts cannot come from 1 of 96 groups"),
        ({"topk_group": 2}, "8 of 384 experts cannot come from 2 of 1 groups"),
        ({"n_group": 384, "topk_group": 8}, "384 groups of 384 experts leave less than 2"),
        ({"kv_lora_rank": None}, "kv_lora_rank must be a positive number, found None"),
        ({"routed_scaling_factor": 0}, "routed_scaling_factor must be a positive number"),
        ({"attention_bias": True}, "attention_bias is set"),
    ],
)
def test_a_variant_that_cannot_be_run_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        target_shape(PATH, TEXT | change)
    with pytest.raises(ModelError, match=said):
        target_shape(PATH, SEEING | {"text_config": TEXT | change})
