"""config.json as shapes: both spellings of the field, and every variant refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddtree.config import Experts, Reach
from ddtree.models.errors import ModelError
from ddtree.models.hf_config import drafter_shape, spread, target_shape
from tests.runtime.models.test_folder import CONFIG

PATH = Path("config.json")
DRAFTER: dict[str, Any] = CONFIG | {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "block_size": 16,
    "num_target_layers": 30,
    "tie_word_embeddings": False,
    "dflash_config": {"mask_token_id": 5, "target_layer_ids": [1, 8]},
}


def test_head_size_and_kv_heads_default_to_llamas() -> None:
    without = {k: v for k, v in CONFIG.items() if k != "num_key_value_heads"}
    shape = target_shape(PATH, without)
    assert (shape.num_kv_heads, shape.head_dim) == (4, 8)
    assert target_shape(PATH, CONFIG | {"head_dim": 16}).head_dim == 16


def test_theta_is_found_where_either_transformers_puts_it() -> None:
    new = {k: v for k, v in CONFIG.items() if k != "rope_theta"}
    new["rope_parameters"] = {"rope_type": "default", "rope_theta": 5e5}
    assert target_shape(PATH, new).rope_theta == 5e5
    assert target_shape(PATH, CONFIG | {"rope_theta": 1e6}).rope_theta == 1e6


def test_qwen3_normalises_queries_and_keys_and_llama_does_not() -> None:
    assert target_shape(PATH, CONFIG | {"architectures": ["Qwen3ForCausalLM"]}).qk_norm
    assert not target_shape(PATH, CONFIG).qk_norm


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": ["GemmaForCausalLM"]}, "'GemmaForCausalLM' is not supported"),
        ({"architectures": None}, "architectures must name one model"),
        ({"vocab_size": None}, "vocab_size must be a positive number, found None"),
        ({"hidden_size": "32"}, "hidden_size must be a positive number"),
        ({"num_hidden_layers": 2.5}, "num_hidden_layers must be a whole number"),
        ({"num_key_value_heads": 3}, "4 query heads cannot share 3"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rope_scaling: rope scaling 'longrope'"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "rope_parameters: rope scaling 'dynamic'"),
        ({"rope_scaling": {"type": "linear"}}, "factor must be a positive number, found None"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "low_freq_factor must be"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial"),
        ({"architectures": ["Qwen3MoeForCausalLM"]}, "num_local_experts must be a positive"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"attention_bias": True}, "attention_bias is set"),
        ({"rope_parameters": 3}, "rope_parameters must be an object"),
    ],
)
def test_a_target_that_cannot_be_run_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        target_shape(PATH, CONFIG | change)


def test_the_block_is_found_where_either_edition_describes_it() -> None:
    old = drafter_shape(PATH, DRAFTER)
    assert (old.block_size, old.depth, old.mask_token_id) == (16, 15, 5)
    assert old.target_layer_ids == (1, 8)
    assert old.layers.qk_norm
    moved = DRAFTER["dflash_config"] | {"block_size": 8}
    assert drafter_shape(PATH, DRAFTER | {"dflash_config": moved}).depth == 7


def test_layers_that_are_not_named_are_spread_evenly() -> None:
    unnamed = DRAFTER | {"dflash_config": {"mask_token_id": 5}, "num_hidden_layers": 5}
    assert drafter_shape(PATH, unnamed).target_layer_ids == (1, 8, 14, 20, 27)
    assert spread(61, 6) == (1, 12, 24, 35, 47, 58)
    assert spread(36, 5) == (1, 9, 17, 25, 33)
    assert spread(36, 1) == (18,)


def test_a_sliding_layer_is_causal_in_its_block_unless_the_config_says_so() -> None:
    sliding = DRAFTER | {
        "layer_types": ["full_attention", "sliding_attention"],
        "sliding_window": 12,
    }
    assert drafter_shape(PATH, sliding).reaches == (Reach(), Reach(12, causal=True))
    said = drafter_shape(PATH, sliding | {"is_causal": False})
    assert said.reaches == (Reach(), Reach(12, causal=False))
    causal = DRAFTER["dflash_config"] | {"causal": True}
    assert drafter_shape(PATH, DRAFTER | {"dflash_config": causal}).reach(1) == Reach(causal=True)
    assert drafter_shape(PATH, DRAFTER).reaches == ()


def test_a_mixture_says_which_of_its_layers_are_dense() -> None:
    mixture = CONFIG | {
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_hidden_layers": 6,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    }
    assert target_shape(PATH, mixture).experts == Experts(8, 2, 16, normalised=False)
    odd = target_shape(PATH, mixture | {"decoder_sparse_step": 2, "mlp_only_layers": [3]})
    assert odd.experts is not None
    assert odd.experts.dense_layers == (0, 2, 3, 4)
    with pytest.raises(ModelError, match="num_experts_per_tok 9 of num_experts 8"):
        target_shape(PATH, mixture | {"num_experts_per_tok": 9})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "is no DFlash drafter"),
        ({"block_size": 1}, "block_size 1 leaves nothing"),
        ({"dflash_config": {}}, "mask_token_id must be a token id"),
        (
            {"dflash_config": {"mask_token_id": 5, "target_layer_ids": [-1]}},
            "target_layer_ids must be layer numbers",
        ),
        ({"layer_types": ["chunked_attention"] * 2}, "layer_types"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types names 3 layers of 2"),
        ({"layer_types": ["sliding_attention"] * 2}, "sliding_window must be a positive"),
        ({"dflash_config": {"mask_token_id": 5, "output_multiplier": 2.0}}, "output_multiplier"),
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ({"dflash_config": {"mask_token_id": 5, "conv_kernel_size": 3}}, "conv_kernel_size"),
        ({"rope_scaling": {"type": "longrope", "factor": 64}}, "rope scaling 'longrope'"),
    ],
)
def test_a_drafter_that_cannot_be_run_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        drafter_shape(PATH, DRAFTER | change)
