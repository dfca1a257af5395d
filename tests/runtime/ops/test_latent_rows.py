"""What leads into latent attention and out of it: plain statements, and the kernels interpreted."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.head_linear import head_linear
from ddtree.ops.rope_latents import latent_queries, rope_latents
from tests.runtime.ops.interpreted import close, interpreted, poison, poisoned

RANK, ROPE, NOPE = 24, 16, 20
SLOTS = torch.tensor([[5, 3, 9], [1, 2, 7]])


def angles() -> tuple[torch.Tensor, torch.Tensor]:
    angle = torch.rand(2, 3, 1, ROPE // 2) * 6
    return torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)


def written(dtype: torch.dtype, query: int, *, kernels: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The query's part and the latents, of a part of wider rows."""
    torch.manual_seed(query)
    joint = torch.randn(2, 3, 7 + query + RANK + ROPE).to(dtype)[..., 7:]
    cos, sin = (one.to(dtype) for one in angles())
    latents = poisoned(12, 1, RANK + ROPE, dtype=dtype)
    norm, second = (torch.randn(RANK).to(dtype), 1e-6), (torch.randn(query).to(dtype), 1e-5)
    with kernels_everywhere() if kernels else nullcontext():
        narrow = rope_latents(
            joint, (cos, sin), (latents, SLOTS), norm, second if query % 2 else None
        )
    return narrow, latents


def test_a_latent_is_normed_and_its_key_rotated() -> None:
    torch.manual_seed(0)
    joint = torch.randn(2, 3, 9 + RANK + ROPE)
    (cos, sin), weight, second = angles(), torch.randn(RANK), torch.randn(9)
    latents = poisoned(12, 1, RANK + ROPE)
    narrow = rope_latents(joint, (cos, sin), (latents, SLOTS), (weight, 1e-6), (second, 1e-5))
    query, latent, key = torch.split(joint, [9, RANK, ROPE], dim=-1)
    normed = latent / latent.square().mean(-1, keepdim=True).add(1e-6).sqrt() * weight
    for row in range(2):
        for token in range(3):
            entry = latents[SLOTS[row, token], 0]
            torch.testing.assert_close(entry[:RANK], normed[row, token])
            swapped = key[row, token].roll(ROPE // 2)
            wanted = key[row, token] * cos[row, token, 0] + swapped * sin[row, token, 0]
            torch.testing.assert_close(entry[RANK:], wanted)
    rms = query.square().mean(-1, keepdim=True).add(1e-5).sqrt()
    torch.testing.assert_close(narrow, query / rms * second)
    untouched = [slot for slot in range(12) if slot not in SLOTS]
    assert latents[untouched].isnan().all()


def test_queries_go_to_the_latents_space_and_are_rotated_behind() -> None:
    torch.manual_seed(0)
    heads, key_up = torch.randn(2, 3, 5, NOPE + ROPE), torch.randn(5, NOPE, RANK)
    cos, sin = angles()
    q = latent_queries(heads, key_up, (cos, sin))
    for head in range(5):
        wanted = heads[:, :, head, :NOPE] @ key_up[head]
        torch.testing.assert_close(q[:, :, head, :RANK], wanted)
    turning = heads[..., NOPE:]
    swapped = turning.roll(ROPE // 2, dims=-1)
    torch.testing.assert_close(q[..., RANK:], turning * cos + swapped * sin)


@interpreted
@pytest.mark.parametrize("query", [0, 8, 21])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["f32", "f16"])
def test_the_kernel_writes_what_the_reference_does(query: int, dtype: torch.dtype) -> None:
    for got, wanted in zip(
        written(dtype, query, kernels=True), written(dtype, query, kernels=False), strict=True
    ):
        close(got, wanted)


@interpreted
@pytest.mark.parametrize("rank", [24, 130])
@pytest.mark.parametrize("tokens", [1, 9, 66])
def test_the_kernel_makes_the_queries_that_the_reference_does(tokens: int, rank: int) -> None:
    torch.manual_seed(tokens)
    heads, key_up = torch.randn(1, tokens, 3, NOPE + ROPE + 5)[..., 5:], torch.randn(3, NOPE, rank)
    angle = torch.rand(1, tokens, 1, ROPE // 2) * 6
    turn = (torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1))
    with kernels_everywhere(), poison():
        got = latent_queries(heads, key_up / NOPE**0.5, turn)
    close(got, latent_queries(heads, key_up / NOPE**0.5, turn))


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
