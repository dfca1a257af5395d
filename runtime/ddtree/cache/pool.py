"""The tensors of the paged cache: one block for all layers, so that commit moves them at once."""

from __future__ import annotations

import torch


class KvPool:
    """Keys and values of `layers` layers. Slot = page * page_size + offset.

    Allocated once and never again. Zeroed, so that a slot nobody wrote is finite.
    """

    def __init__(
        self,
        layers: int,
        slots: int,
        kv_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.kv = torch.zeros(
            layers, 2, slots, kv_heads, head_dim, dtype=dtype, device=device
        )  # [layers, 2, slots, Hkv, D]

    @property
    def slots(self) -> int:
        return self.kv.shape[2]

    def layer(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one layer, each [slots, Hkv, D]; views, not copies."""
        return self.kv[index, 0], self.kv[index, 1]
