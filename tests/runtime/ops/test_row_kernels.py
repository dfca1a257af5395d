"""Norm, rotary positions and context writes, interpreted, agree with their references."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.rms_norm import rms_norm
from ddtree.ops.rope_kv import rope_kv, write_context
from tests.runtime.ops.interpreted import close, interpreted, poisoned

pytestmark = interpreted


@pytest.mark.parametrize("width", [1, 63, 576])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["f32", "f16"])
def test_norms(width: int, dtype: torch.dtype) -> None:
    x, delta = torch.randn(2, 3, width).to(dtype), torch.randn(2, 3, width).to(dtype)
    weight = torch.randn(width).to(dtype)
    here, there = x.clone(), x.clone()
    with kernels_everywhere():
        close(rms_norm(x, weight, 1e-5), rms_norm(x.clone(), weight, 1e-5))
        got = rms_norm(there, weight, 1e-5, delta=delta)
    close(got, rms_norm(here, weight, 1e-5, delta=delta))
    assert torch.equal(there, here)


def test_a_norm_in_place_needs_memory_of_its_own() -> None:
    x = torch.randn(4, 6).T
    with kernels_everywhere(), pytest.raises(ValueError, match="contiguous"):
        rms_norm(x, torch.ones(4), 1e-5, delta=torch.zeros(6, 4))


def angles(rows: int, tokens: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    angle = torch.rand(rows, tokens, 1, dim // 2) * 6
    return torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (1, 1), (9, 3)])
@pytest.mark.parametrize("eps", [None, 1e-6], ids=["plain", "normed"])
def test_queries_keys_and_values(heads: int, kv_heads: int, eps: float | None) -> None:
    joint = torch.randn(2, 3, heads + 2 * kv_heads, 16)
    norm = None if eps is None else (torch.randn(heads + kv_heads, 16), eps)
    slots = torch.tensor([[5, 3, 9], [1, 2, 7]])
    turn = angles(2, 3, 16)
    here, there = poisoned(2, 12, kv_heads, 16), poisoned(2, 12, kv_heads, 16)
    with kernels_everywhere():
        q = rope_kv(joint, turn, (there[0], there[1]), slots, norm)
    close(q, rope_kv(joint, turn, (here[0], here[1]), slots, norm))
    close(there, here)


@pytest.mark.parametrize("normed", ["plain", "normed"])
def test_context_of_all_layers(normed: str) -> None:
    joint = torch.randn(2, 3, 5, 2, 3, 16)  # [B, T, layers, 2, Hkv, D]
    norm = (torch.randn(5, 3, 16), 1e-6) if normed == "normed" else None
    slots = torch.tensor([[5, 3, 9], [1, 2, 7]])
    turn = angles(2, 3, 16)
    here, there = poisoned(5, 2, 12, 3, 16), poisoned(5, 2, 12, 3, 16)
    with kernels_everywhere():
        write_context(joint, turn, there, slots, norm)
    write_context(joint, turn, here, slots, norm)
    close(there, here)
