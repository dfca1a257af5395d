"""The families the engine can run: one line of the table each, no code per family."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """What distinguishes one Llama-like family from another."""

    architecture: str  # in a config.json's `architectures`
    gguf: str  # a GGUF's `general.architecture`
    qk_norm: bool  # each head of the queries and keys is normalised
    gguf_interleaves: bool  # llama.cpp stores query and key rows pair by pair, not half by half
    experts: bool = False  # the feed-forward of most layers is a mixture
    latent: bool = False  # multi-head latent attention; from safetensors only


FAMILIES: dict[str, Family] = {
    "llama": Family("LlamaForCausalLM", "llama", qk_norm=False, gguf_interleaves=True),
    "qwen3": Family("Qwen3ForCausalLM", "qwen3", qk_norm=True, gguf_interleaves=False),
    "qwen3_moe": Family(
        "Qwen3MoeForCausalLM", "qwen3moe", qk_norm=True, gguf_interleaves=False, experts=True
    ),
    "deepseek_v3": Family(
        "DeepseekV3ForCausalLM",
        "deepseek2",
        qk_norm=False,
        gguf_interleaves=False,
        experts=True,
        latent=True,
    ),
}
