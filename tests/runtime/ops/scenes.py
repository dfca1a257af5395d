"""Calls of every op on meta tensors, at the shapes of real models: what `aot` compiles."""

from __future__ import annotations

import torch

from ddtree.ops.bitmask import words_for
from ddtree.ops.linear import gated_linear, linear
from ddtree.ops.tree_attention import plan_attention, tree_attention

PAGE = 16


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def ints(*shape: int) -> torch.Tensor:
    return empty(*shape, dtype=torch.int64)


def attention() -> None:
    """SmolLM2 and Qwen3-8B; one token, trees, a drafter's block, a prompt chunk."""
    for kv_heads, group, dim in ((3, 3, 64), (8, 4, 128)):
        for batch, new in ((1, 1), (1, 17), (64, 17), (1, 257)):
            words = ints(batch, new, words_for(new))
            attend(batch, new, words, (kv_heads, group, dim))
        attend(1, 16, "all", (kv_heads, group, dim))
        attend(1, 512, "causal", (kv_heads, group, dim))


def attend(batch: int, new: int, pattern: str | torch.Tensor, heads: tuple[int, int, int]) -> None:
    kv_heads, group, dim = heads
    plan = plan_attention(ints(batch), ints(batch, 256), new, pattern, PAGE, 0)  # type: ignore[arg-type]
    keys = empty(4096, kv_heads, dim)
    tree_attention(empty(batch, new, kv_heads * group, dim), keys, keys, plan)


def products() -> None:
    """SmolLM2's and Qwen3-8B's weights for one token, for trees, and for a prompt chunk."""
    for hidden, inner in ((576, 1536), (4096, 12288)):
        for tokens in (1, 17, 64, 65, 512):
            x = empty(tokens, hidden)
            linear(x, empty(hidden, hidden), x)
            gated_linear(x, empty(2 * inner, hidden))
            linear(empty(tokens, inner), empty(hidden, inner), x)
        linear(empty(17, hidden), empty(49152, hidden), dtype=torch.float32)
