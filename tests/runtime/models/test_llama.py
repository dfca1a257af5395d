"""Small random targets against transformers' own classes, in float32, whole and in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from ddtree.models.llama import Llama
from ddtree.models.load import load_target
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


@dataclass(frozen=True)
class Pair:
    theirs: Any
    ours: Llama
    folder: Path


def reference(kind: str) -> Any:
    torch.manual_seed(5)
    if kind == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**SIZES, **QWEN3))
    tied = kind == "llama, tied head"
    return LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=tied))


@pytest.fixture(scope="module", params=["llama", "llama, tied head", "qwen3"])
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
    prompt = tokens(1, 23)
    rough = Session(load_target(pair.folder, torch.bfloat16, CPU)).logits(prompt)
    exact = Session(pair.ours).logits(prompt)
    assert rough.dtype == torch.float32
    assert (rough - exact).norm() < 0.05 * exact.norm()
