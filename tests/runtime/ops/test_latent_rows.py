"""What leads into latent attention and out of it: plain statements, and the kernels interpreted."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.head_linear import head_linear
from ddtree.ops.rope_latents import rope_latents
from tests.runtime.ops.interpreted import close, interpreted, poisoned

RANK, ROPE, NOPE = 24, 16, 20
SLOTS = torch.tensor([[5, 3, 9], [1, 2, 7]])


def angles() -> tuple[torch.Tensor, torch.Tensor]:
    angle = torch.rand(2, 3, 1, ROPE // 2) * 6
    return torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)


def written(heads: int, dtype: torch.dtype, *, kernels: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and latents of parts of wider rows, as a layer gives them."""
    torch.manual_seed(heads)
    joint = torch.randn(2, 3, 7 + RANK + ROPE).to(dtype)[..., 7:]
    turning = torch.randn(2, 3, heads, NOPE + ROPE).to(dtype)[..., NOPE:]
    cos, sin = (one.to(dtype) for one in angles())
    latents = poisoned(12, 1, RANK + ROPE, dtype=dtype)
    norm = (torch.randn(RANK).to(dtype), 1e-6)
    if not kernels:
        return rope_latents(joint, turning, (cos, sin), (latents, SLOTS), norm), latents
    with kernels_everywhere():
        return rope_latents(joint, turning, (cos, sin), (latents, SLOTS), norm), latents


def test_a_latent_is_normed_and_its_key_rotated() -> None:
    torch.manual_seed(0)
    joint, turning = torch.randn(2, 3, RANK + ROPE), torch.randn(2, 3, 5, ROPE)
    (cos, sin), weight = angles(), torch.randn(RANK)
    latents = poisoned(12, 1, RANK + ROPE)
    q = rope_latents(joint, turning, (cos, sin), (latents, SLOTS), (weight, 1e-6))
    assert q.shape == (2, 3, 5, RANK + ROPE)
    latent, key = torch.split(joint, [RANK, ROPE], dim=-1)
    normed = latent / latent.square().mean(-1, keepdim=True).add(1e-6).sqrt() * weight
    for row in range(2):
        for token in range(3):
            entry = latents[SLOTS[row, token], 0]
            torch.testing.assert_close(entry[:RANK], normed[row, token])
            swapped = key[row, token].roll(ROPE // 2)
            wanted = key[row, token] * cos[row, token, 0] + swapped * sin[row, token, 0]
            torch.testing.assert_close(entry[RANK:], wanted)
    swapped = turning.roll(ROPE // 2, dims=-1)
    torch.testing.assert_close(q[..., RANK:], turning * cos + swapped * sin)
    untouched = [slot for slot in range(12) if slot not in SLOTS]
    assert latents[untouched].isnan().all()


@interpreted
@pytest.mark.parametrize("heads", [1, 8, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["f32", "f16"])
def test_the_kernel_writes_what_the_reference_does(heads: int, dtype: torch.dtype) -> None:
    q, latents = written(heads, dtype, kernels=True)
    wanted, here = written(heads, dtype, kernels=False)
    close(q[..., RANK:], wanted[..., RANK:])
    close(latents, here)


@interpreted
@pytest.mark.parametrize(("tokens", "outputs", "k"), [(1, 70, 20), (9, 64, 64), (66, 33, 130)])
@pytest.mark.parametrize("turned", ["rows", "columns"])
def test_every_head_has_a_product_of_its_own(
    tokens: int, outputs: int, k: int, turned: str
) -> None:
    torch.manual_seed(tokens)
    x = torch.randn(2, tokens, 3, k + 5)[..., :k]
    weight = torch.randn(3, outputs, k) / k**0.5
    if turned == "columns":
        weight = weight.transpose(1, 2).contiguous().transpose(1, 2)
    wide = poisoned(2, tokens, 3, outputs + 4)
    with kernels_everywhere():
        head_linear(x, weight, wide[..., :outputs])
    for head in range(3):
        close(wide[:, :, head, :outputs], x[:, :, head] @ weight[head].T)
    assert wide[..., outputs:].isnan().all()
