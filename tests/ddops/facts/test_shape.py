"""Shapes from `config.json`: Kimi's as published, an ordinary model's, drafters of both kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddops.facts.shape import parse, parse_drafter
from ddops.spec.load import load_box
from ddops.spec.shape import DrafterShape, Shape

KIMI: dict[str, Any] = {
    "model_type": "kimi_k25",
    "auto_map": {"AutoConfig": "configuration.KimiConfig"},
    "vision_config": {"num_hidden_layers": 27},
    "text_config": {
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "vocab_size": 163840,
        "first_k_dense_replace": 1,
        "num_attention_heads": 64,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "n_routed_experts": 384,
        "max_position_embeddings": 262144,
    },
}
QWEN: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "head_dim": 128,
    "max_position_embeddings": 40960,
}
DFLASH: dict[str, Any] = {"architectures": ["DFlashDraftModel"], "block_size": 8}
READ = {"dflash_config": {"target_layer_ids": [1, 12, 24, 35, 47, 58]}}
DFLASH_LAYERS = {
    "num_hidden_layers": 6,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 7168,
}
YARN = {"rope_type": "yarn", "factor": 64}


def text(config: dict[str, Any]) -> bytes:
    return json.dumps(config).encode()


def test_kimi_is_what_the_profiles_pin() -> None:
    found = parse(text(KIMI))
    profiles = [
        load_box(f"{box}{engine}") for box in ("b300", "pro6000") for engine in ("", "-ddtree")
    ]
    assert [found] * 4 == [box.deployment.model.shape for box in profiles]


def test_kimis_drafter_is_what_the_profiles_pin() -> None:
    rope = {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}
    found = parse_drafter(text({**DFLASH, **READ, **DFLASH_LAYERS, "rope_scaling": rope}))
    assert found == load_box("b300-ddtree").deployment.decoding.drafter_shape


def test_ordinary_keys_and_values_are_counted_by_heads() -> None:
    assert parse(text(QWEN)) == Shape(
        family="qwen3",
        attention="gqa",
        kv_bytes_per_token=2 * 36 * 2 * 8 * 128,
        max_context=40960,
    )


@pytest.mark.parametrize("config", [None, b"", b"not json", b"[]", b'{"model_type": "x"}'])
def test_a_config_that_does_not_say_is_no_shape(config: bytes | None) -> None:
    assert parse(config) is None
    assert parse_drafter(config) is None


@pytest.mark.parametrize(
    ("rope", "yarn"),
    [
        (None, "none"),
        (YARN, "plain"),
        ({"type": "yarn", "mscale": 1, "mscale_all_dim": 1}, "mscale"),
        ({**YARN, "mscale": 1, "mscale_all_dim": 1, "attn_factor": 1.4159}, "attn_factor"),
    ],
)
def test_a_drafter_says_its_depth_and_what_scales_its_attention(
    rope: dict[str, Any] | None, yarn: Any
) -> None:
    found = parse_drafter(text({**DFLASH, "rope_scaling": rope}))
    assert found == DrafterShape(method="dflash", depth=7, yarn=yarn)


def test_the_block_of_a_newer_drafter_lies_in_its_own_section() -> None:
    config = {"architectures": ["DFlashDraftModel"], "dflash_config": {"block_size": 16}}
    found = parse_drafter(text(config))
    assert found
    assert found.depth == 15


def test_an_eagle_drafter_is_told_from_a_block_drafter() -> None:
    found = parse_drafter(text({"architectures": ["LlamaForCausalLMEagle3"]}))
    assert found == DrafterShape(method="eagle3")
