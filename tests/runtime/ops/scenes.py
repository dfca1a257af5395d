"""Calls of every op on meta tensors, at the shapes of real models: what `aot` compiles."""

from __future__ import annotations

from dataclasses import replace

import torch

from ddtree.config import Experts, SigmoidRouting
from ddtree.ops.angles import angles
from ddtree.ops.bitmask import words_for
from ddtree.ops.close_gaps import close_gaps
from ddtree.ops.draft_block import draft_block
from ddtree.ops.embed import embed
from ddtree.ops.experts import expert_mlp
from ddtree.ops.experts.packed import Packed
from ddtree.ops.half_norm import BLOCK, Half
from ddtree.ops.kv_commit import commit_slots, kv_commit
from ddtree.ops.latent_attention import latent_values
from ddtree.ops.linear import gated_linear, linear, linear_and_half, linear_pair
from ddtree.ops.marginals import marginals
from ddtree.ops.path_features import path_features
from ddtree.ops.rms_norm import rms_norm
from ddtree.ops.rope_kv import rope_kv, write_context
from ddtree.ops.rope_latents import latent_queries, rope_latents
from ddtree.ops.routing import route
from ddtree.ops.sample import Chance, Narrowing, sample
from ddtree.ops.tally import Moved, tally
from ddtree.ops.to_host import to_host
from ddtree.ops.tree_accept import tree_accept
from ddtree.ops.tree_attention import plan_attention, plan_window, tree_attention
from ddtree.ops.tree_build import Bounds, chain, root_only, tree_build

PAGE = 16
KIMI = Experts(384, 8, 2048, normalised=True, sigmoid=SigmoidRouting(1, 1, scaling=2.827))


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def ints(*shape: int) -> torch.Tensor:
    return empty(*shape, dtype=torch.int64)


def attention() -> None:
    """Qwen3-8B: one token, trees, a prompt chunk. SmolLM2's blocks, many trees; K2.6's blocks."""
    for batch, new in ((1, 1), (1, 17), (1, 257)):
        attend(batch, new, ints(batch, new, words_for(new)), (8, 4, 128))
    attend(1, 512, "causal", (8, 4, 128))
    attend(1, 16, "all", (3, 3, 64))
    attend(64, 17, ints(64, 17, 1), (3, 3, 64))
    attend(1, 17, ints(1, 17, 1), (8, 4, 128), torch.float32)
    for kind, window in ((torch.bfloat16, 4096), (torch.float32, 100)):
        plan = plan_window(ints(2), ints(2, 256), 8, "all", PAGE, window)
        keys = empty(4096, 8, 128, dtype=kind)
        tree_attention(empty(2, 8, 64, 128, dtype=kind), keys, keys, plan)


def attend(
    batch: int,
    new: int,
    pattern: str | torch.Tensor,
    heads: tuple[int, int, int],
    kind: torch.dtype = torch.bfloat16,
) -> None:
    kv_heads, group, dim = heads
    plan = plan_attention(ints(batch), ints(batch, 256), new, pattern, PAGE, 0)  # type: ignore[arg-type]
    keys = empty(4096, kv_heads, dim, dtype=kind)
    tree_attention(empty(batch, new, kv_heads * group, dim, dtype=kind), keys, keys, plan)


def latents() -> None:
    """Kimi-K2.6, an eighth of its heads: one token, trees split and whole, a line of a prompt and
    many.
    """
    for batch, new in ((1, 1), (1, 9), (1, 65), (48, 17)):
        latent(batch, new, ints(batch, new, words_for(new)))
    for lines in (1, 48):
        latent(lines, 16, "causal")


def latent(batch: int, new: int, pattern: str | torch.Tensor, heads: int = 8) -> None:
    plan = plan_attention(ints(batch), ints(batch, 256), new, pattern, PAGE, 0)  # type: ignore[arg-type]
    cache = empty(4096, 1, 576)
    angle = empty(batch, new, 1, 64)
    queries = empty(batch, new, heads, 192)
    joint, norm = empty(batch, new, 2112), (empty(512), 1e-6)
    rope_latents(joint, (angle, angle), (cache, plan.write_slots), norm, (empty(1536), 1e-6))
    q = latent_queries(queries, empty(heads, 128, 512), (angle, angle))
    latent_values(q, cache, plan, 0.07, empty(heads, 128, 512))


def products() -> None:
    """Qwen3-8B's weights for one token, a tree and a prompt chunk; SmolLM2's; a rank of K2.6."""
    for tokens in (1, 65, 512):
        x = empty(tokens, 4096)
        gated_linear(x, empty(24576, 4096))
        linear(empty(tokens, 12288), empty(4096, 12288), x)
    for tokens in (33, 65, 97):
        linear(empty(tokens, 4096), empty(6144, 4096))
    gated_linear(empty(97, 7168), empty(4608, 7168))
    for tokens in (17, 80):
        gated_linear(empty(tokens, 576), empty(3072, 576))
    linear(empty(17, 200), empty(576, 200))
    linear(empty(17, 576), empty(49152, 576), dtype=torch.float32)
    for tokens in (1, 17, 64, 97, 600):
        linear(empty(tokens, 1536), empty(576, 1536))
        linear(empty(tokens, 1536), empty(1536, 1536))
    for tokens in (1, 64):
        linear(empty(tokens, 1024), empty(7168, 1024))
        linear_pair(empty(tokens, 7168), empty(384, 7168), empty(512, 7168), dtype=torch.float32)


def halved_norms() -> None:
    """The norms of SmolLM2, and of a model of twice the features and layers in splits."""
    for hidden, inner, joint in ((576, 1536, 960), (1024, 8192, 2048)):
        norm = empty(hidden)
        for tokens in (1, 17, 65, 1088):
            x, seen = empty(tokens, hidden), empty(tokens, inner)
            half = Half(x, empty(tokens, hidden // BLOCK, dtype=torch.float32), 1e-5)
            linear(half, empty(joint, hidden))
            gated_linear(half, empty(2 * inner, hidden))
            linear_and_half(x, empty(hidden, hidden), x, norm, 1e-5)
            linear_and_half(seen, empty(hidden, inner), x, norm, 1e-5)


def mixtures() -> None:
    """Qwen3-30B-A3B's feed-forward; an odd one; Kimi-K2.6's in INT4, split in either way."""
    for tokens, hidden, inner, experts, active in ((1, 2048, 768, 128, 8), (33, 200, 70, 3, 2)):
        x = empty(tokens, hidden)
        stacks = (empty(experts, 2 * inner, hidden), empty(experts, hidden, inner))
        weights = empty(tokens, active, dtype=torch.float32)
        expert_mlp(x, stacks, ints(tokens, active), weights, x)
    for tokens in (1, 33, 1200):
        x = empty(tokens, 7168)
        chosen, weights = route(empty(tokens, 384, dtype=torch.float32), KIMI, empty(384))
        shared = empty(tokens, 256), empty(7168, 256)
        expert_mlp(x, (int4(384, 512, 7168), int4(384, 7168, 256)), chosen, weights, x, shared)
        expert_mlp(x, (int4(48, 4096, 7168), int4(48, 7168, 2048)), chosen, weights, x)
    route(empty(33, 128, dtype=torch.float32), replace(KIMI, count=128, sigmoid=None))
    deepseek = replace(KIMI, count=256, sigmoid=SigmoidRouting(8, 4, scaling=2.5))
    route(empty(33, 256, dtype=torch.float32), deepseek, empty(256))


def int4(experts: int, outputs: int, features: int) -> Packed:
    tiles = (experts, outputs // 16, features // 256, 16)
    return Packed(empty(*tiles, 64, dtype=torch.int16), empty(*tiles, 8), outputs, features)


def rows() -> None:
    """Norms and rotary positions of both models, a drafter's context in all its layers; no gaps."""
    for hidden, heads, kv_heads, dim in ((576, 9, 3, 64), (4096, 32, 8, 128)):
        x = empty(1, 17, hidden)
        embed(ints(1, 17), empty(49152, hidden))
        rms_norm(x, empty(hidden), 1e-5)
        rms_norm(x, empty(hidden), 1e-5, delta=x)
        angle, _ = angles(ints(1, 17), empty(dim, dtype=torch.float32), 1.0, torch.bfloat16)
        angles(ints(1, 17).int(), empty(dim, dtype=torch.float32), 1.0, torch.bfloat16)
        joint = empty(1, 17, heads + 2 * kv_heads, dim)
        cache = empty(5, 2, 64, kv_heads, dim)
        for norm in (None, (empty(heads + kv_heads, dim), 1e-6)):
            rope_kv(joint, (angle, angle), (cache[0, 0], cache[0, 1]), ints(1, 17), norm)
        context = empty(1, 17, 5, 2, kv_heads, dim)
        norms = empty(5, kv_heads, dim)
        write_context(context, (angle, angle), cache, ints(1, 17), (norms, 1e-6))
    close_gaps(empty(1, dtype=torch.float32))
    for kind in (torch.float64, torch.int64):
        to_host(empty(64, 20, dtype=kind), empty(64, 20, dtype=kind))


def trees() -> None:
    """From a block to the tally at the smallest, a usual, and the largest budget."""
    draft_block(ints(4), ints(4), 16, 16)
    root_only(ints(4))
    for budget in (1, 64, 256):
        bounds = Bounds(ints(4), empty(4, dtype=torch.float32))
        ranked = marginals(empty(4, 15, 151936), budget)
        chain(ints(4), ranked, bounds)
        tree = tree_build(ints(4), ranked, budget, bounds)
        verdict = tree_accept(tree, ints(4, budget + 1), 15)
        where = commit_slots(ints(4), ints(4, 256), PAGE, verdict.path, verdict.length)
        kv_commit(empty(36, 2, 4096, 8, 128), where.source, where.target)
        moved = Moved(ints(4), 9, ints(10), ints(10))
        path_features((empty(4, budget + 1, 4096),) * 5, verdict.path)
        tally(
            tree,
            tree.scores,
            verdict,
            empty(4, budget + 1, dtype=torch.float32),
            (1, 64, 256),
            moved,
        )


def draws() -> None:
    """Greedy, tempered, and filtered rows."""
    logits = empty(4, 17, 49152, dtype=torch.float32)
    one = empty(4, dtype=torch.float32)
    chance = Chance(ints(4), ints(4, 17).int())  # as a plan has them
    narrowing = Narrowing(ints(4), one)
    for given in (logits, logits.bfloat16()):
        sample(given, one, one, chance, method="greedy")
        sample(given, one, one, chance, method="full")
        sample(given, one, one, chance, method="nucleus", narrowing=narrowing)
