"""What a verify consists of: each kind of work in all layers at once, so that no cache keeps it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ddtree.cache.pool import KvPool
from ddtree.core.batch import DraftTree, Rows
from ddtree.layers.decoder import DecoderLayer
from ddtree.layers.experts import SparseMlp
from ddtree.models.llama import Llama
from ddtree.ops.tree_attention import plan_attention

Work = dict[str, Callable[[], object]]


def parts(
    target: Llama, rows: Rows, tree: DraftTree, pool: KvPool, page_size: int, longest: int
) -> Work:
    """Attention, routers, feed-forwards (routers included) and head of `tree`'s nodes."""
    nodes = tree.tokens.shape[1]
    positions = rows.start.unsqueeze(1) + tree.depths.clamp(min=0)
    where = (rows.start, rows.page_table, nodes, tree.ancestors, page_size, longest + nodes)
    plan = plan_attention(*where)
    x = target.embed(tree.tokens)
    angles = target.rotary(positions, x.dtype)
    layers = [layer for layer in target.layers if isinstance(layer, DecoderLayer)]
    routers = [layer.mlp.router for layer in layers if isinstance(layer.mlp, SparseMlp)]

    def attention() -> None:
        for index, layer in enumerate(layers):
            layer.attention(layer.attention_norm(x), x, angles, pool.layer(index), plan)

    def feed_forward() -> None:
        for layer in layers:
            layer.mlp(layer.mlp_norm(x), x)

    def routing() -> None:
        for router in routers:
            router(x)

    def head() -> torch.Tensor:
        return target.logits(target.norm(x))

    named: Work = {"attention": attention, "feed_forward": feed_forward, "head": head}
    if routers:
        named["routing"] = routing
    return named
