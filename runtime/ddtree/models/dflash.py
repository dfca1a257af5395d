"""The DFlash drafter: a block of masked positions, filled in one pass from the target's features.

It has no embedding and no head of its own; the caller brings the target's. Of its own it may have
the embedding of the mask.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from ddtree.cache.pool import KvPool
from ddtree.config import DrafterShape, ModelShape
from ddtree.layers.decoder import through
from ddtree.layers.linear import Linear
from ddtree.layers.norm import RmsNorm
from ddtree.layers.rotary import rotary_of, rotate
from ddtree.models.assemble import Assembler
from ddtree.models.split import UNSPLIT, Split, uneven
from ddtree.models.weights import (
    NORM,
    QK_NORM,
    QKV,
    Shapes,
    Weights,
    check_shapes,
    decoder_shapes,
    layer_name,
    take,
)
from ddtree.ops.rope_kv import write_context
from ddtree.ops.tree_attention import AttentionPlan

FUSION = "fc.weight"
FUSION_NORM = "hidden_norm.weight"


class Drafter(nn.Module):
    """Built by `models.load.load_drafter`. Its keys and values lie in a pool of its own.

    One rank's share of the layers, where they divide; what fuses the features is whole.
    """

    def __init__(
        self,
        shape: DrafterShape,
        weights: Weights,
        like: torch.Tensor,
        mask_embedding: torch.Tensor | None = None,
        split: Split = UNSPLIT,
    ) -> None:
        """`like` gives dtype and device, `mask_embedding` [H] replaces the target's row.

        Raises ModelError when `weights` do not fit `shape`.
        """
        super().__init__()
        check_shapes(weights, drafter_shapes(shape))
        build = Assembler(weights, shape.layers, like, shared(shape, split))
        count = range(shape.layers.num_layers)
        self.shape = shape
        self.held = build.shape
        self.dtype = like.dtype
        self.device = like.device
        self.mask_embedding = None if mask_embedding is None else mask_embedding.to(like)
        self.fusion = build.linear(FUSION)
        self.fusion_norm = build.norm(FUSION_NORM)
        self.rotary = rotary_of(shape.layers, like.device)
        self.layers = nn.ModuleList(build.layer(i) for i in count)
        self.norm = build.norm(NORM)
        # The context passes through no layer, so one product gives the keys and values of all.
        self.context = Linear(
            take(build.weights, [layer_name(i, name) for i in count for name in QKV[1:]], like)
        )
        key_norms = take(weights, [layer_name(i, QK_NORM[1]) for i in count], like)
        rows = key_norms.view(-1, 1, shape.layers.head_dim)  # [layers, 1, D]
        self.context_norm = RmsNorm(rows, shape.layers.rms_norm_eps)
        # [layers, Hkv, D]: a row a head, as the kernel wants it
        self.context_heads = rows.expand(-1, self.held.num_kv_heads, -1).contiguous()

    def write_context(
        self,
        features: torch.Tensor,  # [B, T, F]
        positions: torch.Tensor,  # [B, T] int64
        slots: torch.Tensor,  # [B, T] int64
        pool: KvPool,
    ) -> None:
        """Project the features once and write every layer's keys and values to `slots`."""
        sizes = self.held
        fused = self.fusion_norm(self.fusion(features))  # [B, T, H]
        joint = self.context(fused).view(
            *slots.shape, sizes.num_layers, 2, sizes.num_kv_heads, sizes.head_dim
        )  # [B, T, layers, 2, Hkv, D]
        angles = self.rotary(positions, joint.dtype)
        if joint.is_cuda:  # one kernel
            norm = (self.context_heads, self.context_norm.eps)
            write_context(joint, (angles.cos, angles.sin), pool.kv, slots, norm)
            return
        k, v = joint.unbind(3)  # [B, T, layers, Hkv, D]
        k = rotate(self.context_norm(k).flatten(2, 3), angles).view_as(k)
        index = slots.flatten()
        for which, new in enumerate((k, v)):
            pool.kv[:, which].index_copy_(1, index, new.flatten(0, 1).transpose(0, 1))

    def forward(
        self,
        embeddings: torch.Tensor,  # [B, b, H] of the root and the masks
        positions: torch.Tensor,  # [B, b] int64
        pool: KvPool,
        plans: Sequence[AttentionPlan],  # one a layer, made for `shape.reach(layer)`
    ) -> torch.Tensor:
        """Hidden [B, b, H] after the final norm; row i speaks of position i, row 0 of nothing."""
        angles = self.rotary(positions, embeddings.dtype)
        *_, x = through(self.layers, embeddings, angles, pool.layer, plans)
        out: torch.Tensor = self.norm(x)
        return out


def shared(shape: DrafterShape, split: Split) -> Split:
    """How ranks share a drafter: as a target, or, where it does not divide, not at all."""
    return UNSPLIT if uneven(shape.layers, split) else split


def drafter_shapes(shape: DrafterShape) -> Shapes:
    hidden = shape.layers.hidden_size
    width = len(shape.target_layer_ids) * hidden
    return {FUSION: (hidden, width), FUSION_NORM: (hidden,)} | decoder_shapes(shape.layers)


def misfit(drafter: DrafterShape, target: ModelShape, *, own_mask: bool = False) -> str | None:
    """Why this drafter cannot draft for this target, or None.

    `own_mask`: it brings the mask's embedding, so that the token need not be one of the target's.
    """
    mine = drafter.layers
    if mine.hidden_size != target.hidden_size:
        return f"is {mine.hidden_size} wide, the target {target.hidden_size}"
    if mine.vocab_size != target.vocab_size:
        return f"knows {mine.vocab_size} tokens, the target {target.vocab_size}"
    if drafter.mask_token_id >= target.vocab_size and not own_mask:
        return f"masks with token {drafter.mask_token_id}, the target has {target.vocab_size}"
    if max(drafter.target_layer_ids) >= target.num_layers:
        return f"reads layer {max(drafter.target_layer_ids)}, the target has {target.num_layers}"
    return None
