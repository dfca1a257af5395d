"""Small random targets against transformers' own classes, in float32, whole and in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from ddtree.models.llama import Llama
from ddtree.models.load import load_target
from ddtree.ops.bitmask import pack
from tests.runtime.models.session import CPU, Session

SIZES: dict[str, Any] = {
    "vocab_size": 160,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "attn_implementation": "eager",
}
QWEN3: dict[str, Any] = {
    "head_dim": 16,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
}
MIXTURE: dict[str, Any] = QWEN3 | {
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
}
# Norms inside latent attention have an eps of their own, which 1e-3 outside shows
LATENT: dict[str, Any] = SIZES | {
    "num_key_value_heads": 6,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "rms_norm_eps": 1e-3,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 2.827,
    "num_nextn_predict_layers": 0,
}
GROUPED: dict[str, Any] = {
    "q_lora_rank": 20,
    "n_group": 4,
    "topk_group": 2,
    "norm_topk_prob": True,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 8.0,
        "original_max_position_embeddings": 16,
        "mscale": 1.0,
        "mscale_all_dim": 0.7,  # unlike mscale, so that both factors show
    },
}
UNGROUPED: dict[str, Any] = {
    "q_lora_rank": None,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": False,
    "rope_interleave": False,
}
# So short a first training that prompts of 23 tokens are past it.
SCALED: dict[str, Any] = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
}
KINDS = ["llama", "llama, tied head", "qwen3", "mixture", "mixture, weights as routed"]
LATENTS = {"latent": GROUPED, "latent, straight queries": UNGROUPED}


@dataclass(frozen=True)
class Pair:
    theirs: Any
    ours: Llama
    folder: Path


def reference(kind: str) -> Any:
    torch.manual_seed(5)
    if kind == "qwen3":
        return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES, **QWEN3))
    if kind.startswith("mixture"):  # the second kind: with a dense layer too
        normalised = kind == "mixture"
        dense = [] if normalised else [1]
        config = transformers.Qwen3MoeConfig(
            **SIZES, **MIXTURE, norm_topk_prob=normalised, mlp_only_layers=dense
        )
        return transformers.Qwen3MoeForCausalLM(config)
    if kind in LATENTS:
        model = transformers.DeepseekV3ForCausalLM(
            transformers.DeepseekV3Config(**LATENT, **LATENTS[kind])
        )
        for name, correction in model.named_buffers():
            if name.endswith("e_score_correction_bias"):  # zeros by default
                torch.nn.init.normal_(correction, std=0.2)
        return model
    if kind in SCALED:
        rope = SCALED[kind] | {"rope_theta": 1e4}
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**SIZES, rope_parameters=rope)
        )
    tied = kind == "llama, tied head"
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SIZES, tie_word_embeddings=tied)
    )


@pytest.fixture(scope="module", params=[*KINDS, *SCALED, *LATENTS])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    theirs = reference(request.param).eval()
    for name, parameter in theirs.named_parameters():
        if "norm" in name:  # all ones by default, which would hide a norm left out
            torch.nn.init.normal_(parameter, 1.0, 0.3)
    folder = tmp_path_factory.mktemp("model")
    theirs.save_pretrained(folder)
    return Pair(theirs, load_target(folder, torch.float32, CPU), folder)


def tokens(rows: int, length: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randint(0, SIZES["vocab_size"], (rows, length), generator=generator)


def test_logits_of_a_prompt_are_transformers_logits(pair: Pair) -> None:
    prompt = tokens(2, 23)
    with torch.inference_mode():
        wanted = pair.theirs(prompt).logits
    torch.testing.assert_close(
        Session(pair.ours, rows=2).logits(prompt), wanted, atol=1e-4, rtol=1e-4
    )


def test_a_prompt_in_pieces_and_token_by_token_gives_the_same_logits(pair: Pair) -> None:
    prompt = tokens(2, 23)
    with torch.inference_mode():
        wanted = pair.theirs(prompt).logits
    session = Session(pair.ours, rows=2)
    pieces = [session.logits(piece) for piece in torch.split(prompt, [9, 5, *[1] * 9], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), wanted, atol=1e-4, rtol=1e-4)


def test_the_nodes_of_a_tree_get_the_logits_of_their_paths(pair: Pair) -> None:
    """A root with two children, of which the second has two more."""
    prompt, nodes = tokens(1, 12), tokens(1, 5)[0]
    parents = [-1, 0, 0, 2, 2]
    visible = torch.eye(5, dtype=torch.bool)
    for node in range(1, 5):
        visible[node] |= visible[parents[node]]
    session = Session(pair.ours)
    session.feed(prompt)
    plan = session.plan(5, pack(visible.unsqueeze(0)))
    positions = session.start.unsqueeze(1) + visible.sum(1) - 1
    with torch.inference_mode():
        out = pair.ours.forward(nodes.unsqueeze(0), positions, session.pool, plan)
        found = pair.ours.logits(out.hidden)[0]
        for node in range(5):
            path = torch.cat((prompt[0], nodes[visible[node]])).unsqueeze(0)
            wanted = pair.theirs(path).logits[0, -1]
            torch.testing.assert_close(found[node], wanted, atol=1e-4, rtol=1e-4)


def test_features_are_the_outputs_of_the_named_layers_in_their_order(pair: Pair) -> None:
    prompt = tokens(1, 11)
    with torch.inference_mode():
        states = pair.theirs(prompt, output_hidden_states=True).hidden_states
    output = Session(pair.ours).feed(prompt, feature_layers=(1, 0))
    wanted = torch.cat((states[2], states[1]), dim=-1)
    torch.testing.assert_close(output.features, wanted, atol=1e-4, rtol=1e-4)


def test_hidden_is_what_the_head_reads(pair: Pair) -> None:
    prompt = tokens(1, 7)
    with torch.inference_mode():
        states = pair.theirs(prompt, output_hidden_states=True).hidden_states
    torch.testing.assert_close(
        Session(pair.ours).feed(prompt).hidden, states[-1], atol=1e-4, rtol=1e-4
    )


def test_bfloat16_stays_near_float32(pair: Pair) -> None:
    """Most tokens do: a rounding may send one to another expert, and that one far away."""
    prompt = tokens(1, 23)
    rough = Session(load_target(pair.folder, torch.bfloat16, CPU)).logits(prompt)
    exact = Session(pair.ours).logits(prompt)
    assert rough.dtype == torch.float32
    errors = (rough - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert errors.quantile(0.8) < 0.05
