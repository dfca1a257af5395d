"""The tensors of the paged cache: one block for all layers, so that commit moves them at once."""

from __future__ import annotations

import torch

from ddtree.config import ModelShape


class KvPool:
    """What the tokens leave in all layers of `shape`. Slot = page * page_size + offset.

    Allocated once and never again. Zeroed, so that a slot nobody wrote is finite.
    """

    def __init__(
        self, shape: ModelShape, slots: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        sides, heads, size = shape.cached
        self.kv = torch.zeros(
            shape.num_layers, sides, slots, heads, size, dtype=dtype, device=device
        )  # [layers, sides, slots, Hkv, D]

    @property
    def slots(self) -> int:
        return self.kv.shape[2]

    def layer(self, index: int) -> tuple[torch.Tensor, ...]:
        """Keys and values of one layer, or its latents, each [slots, Hkv, D]; views, not copies."""
        return tuple(self.kv[index, side] for side in range(self.kv.shape[1]))
