"""Latent attention's kernels, interpreted, agree with the reference on poisoned pages."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.head_linear import head_linear
from ddtree.ops.latent_attention import latent_attention, latent_values, launch
from ddtree.ops.latent_values import launch as after
from ddtree.ops.state_sum import launch as sums
from ddtree.ops.tree_attention import AttentionPlan, plan_attention
from ddtree.ops.tree_attention.launch import Cuts
from tests.runtime.ops.interpreted import close, interpreted, poison, poisoned
from tests.runtime.ops.paged import PAGE, Heads, Scene, decode_of, make_scene

pytestmark = interpreted
RANK, ROPE, SCALE = 32, 16, 0.2


def scene_of(starts: list[int], nodes: int, heads: int, dtype: torch.dtype) -> Scene:
    return make_scene(starts, nodes, Heads(1, heads, RANK + ROPE), dtype, seed=nodes)


def planned(scene: Scene, pattern: torch.Tensor | str) -> tuple[AttentionPlan, AttentionPlan]:
    """The reference's plan and the kernels'; the new latents are written."""
    new = scene.q.shape[1]
    longest = int(scene.start.max()) + new
    sizes = (scene.start, scene.page_table, new, pattern, PAGE, longest)
    plain = plan_attention(*sizes)  # type: ignore[arg-type]
    slots, fresh = plain.write_slots.flatten(), scene.kv[0].flatten(0, 1)
    scene.cache[0].index_copy_(0, slots, fresh)
    with kernels_everywhere():
        return plain, plan_attention(*sizes)  # type: ignore[arg-type]


def attended(scene: Scene, plan: AttentionPlan, cut: launch.Blocks) -> torch.Tensor:
    assert plan.paged is not None
    out = poisoned(*scene.q.shape[:-1], RANK)
    with poison():
        launch.attend(scene.q, scene.cache[0], plan.paged, SCALE, out, cut)
    return out


@pytest.mark.parametrize(
    ("starts", "nodes", "heads", "pattern", "whole"),
    [
        ([0], 1, 8, "tree", False),
        ([140, 0], 3, 8, "tree", False),
        ([143], 2, 8, "tree", True),
        ([79], 17, 2, "causal", False),
        ([270, 15], 2, 20, "tree", True),
        ([270, 15], 2, 20, "causal", False),
        ([64], 66, 1, "tree", False),
    ],
    ids=str,
)
def test_nodes_attend_as_the_reference_says(
    starts: list[int], nodes: int, heads: int, pattern: str, whole: object
) -> None:
    scene = scene_of(starts, nodes, heads, torch.float32)
    plain, kernels = planned(scene, scene.words if pattern == "tree" else pattern)
    out = attended(scene, kernels, launch.Blocks(16, whole=bool(whole)))
    close(out, latent_attention(scene.q, scene.cache[0], plain, RANK, SCALE))


@pytest.mark.parametrize("start", [46, 47, 63, 64, 78, 79, 80])
def test_no_position_is_lost_where_the_tail_begins(start: int) -> None:
    scene = scene_of([start], 5, 2, torch.float32)
    for pattern in (scene.words, "causal"):
        plain, kernels = planned(scene, pattern)
        out = attended(scene, kernels, launch.Blocks(16, whole=False))
        close(out, latent_attention(scene.q, scene.cache[0], plain, RANK, SCALE))


@pytest.mark.parametrize("whole", [False, True])
def test_far_chunks_have_several_tiles(monkeypatch: pytest.MonkeyPatch, whole: object) -> None:
    monkeypatch.setattr(launch, "CUTS", Cuts(tile=64, near=1, far=2, turn=2))
    scene = scene_of([400, 90], 3, 8, torch.float32)
    plain, kernels = planned(scene, scene.words)
    out = attended(scene, kernels, launch.Blocks(16, whole=bool(whole)))
    close(out, latent_attention(scene.q, scene.cache[0], plain, RANK, SCALE))


@pytest.mark.parametrize("flying", [2 * RANK, 64 * RANK])
def test_no_cut_of_the_work_changes_a_bit(flying: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of two tiles and of four, summed two at once and all: a tile alone has products of
    other sizes, which numpy rounds unlike.
    """
    monkeypatch.setattr(launch, "CUTS", Cuts(tile=64, near=2, far=4, turn=4))
    monkeypatch.setattr(sums, "FLYING", flying)
    scene = scene_of([740, 90], 2, 8, torch.float32)
    _, kernels = planned(scene, scene.words)
    assert kernels.paged is not None
    whole = attended(scene, kernels, launch.Blocks(16, whole=True))
    assert attended(scene, kernels, launch.Blocks(16, whole=False)).equal(whole)
    states = launch.states(scene.q, scene.cache[0], kernels.paged, SCALE, RANK)
    up = torch.randn(8, 20, RANK)
    once, parts = poisoned(2, 2, 8, 20), poisoned(2, 2, 8, 20)
    after.values(states, up, once)
    after.values(states, up, parts, after.Blocks(together=2))
    assert once.equal(parts)


def test_a_nodes_bits_are_those_of_decode() -> None:
    scene = scene_of([131], 9, 8, torch.float32)
    cut = launch.Blocks(16, whole=False)
    tree = attended(scene, planned(scene, scene.words)[1], cut)[0]
    alone = decode_of(scene, 0)
    assert tree.equal(attended(alone, planned(alone, alone.words)[1], cut)[:, 0])


def test_half_precision_is_rounded_not_lost() -> None:
    scene = scene_of([40], 9, 8, torch.float16)
    plain, kernels = planned(scene, scene.words)
    expected = latent_attention(scene.q, scene.cache[0], plain, RANK, SCALE)
    close(latent_attention(scene.q, scene.cache[0], kernels, RANK, SCALE), expected)


@pytest.mark.parametrize(
    ("starts", "nodes", "value", "dtype"),
    [
        ([0], 1, 16, torch.float32),
        ([300, 47], 2, 20, torch.float32),
        ([1100], 1, 40, torch.float32),
        ([140], 7, 24, torch.float16),
    ],
    ids=str,
)
def test_values_are_made_where_states_are_merged(
    starts: list[int], nodes: int, value: int, dtype: torch.dtype
) -> None:
    scene = scene_of(starts, nodes, 2, dtype)
    plain, kernels = planned(scene, scene.words)
    wide = torch.randn(2, value + 3, RANK).to(dtype) / RANK**0.5
    up = wide[:, 3:]  # what stands before it belongs to keys
    with poison(), kernels_everywhere():
        got = latent_values(scene.q, scene.cache[0], kernels, SCALE, up)
    expected = head_linear(latent_attention(scene.q, scene.cache[0], plain, RANK, SCALE), up)
    close(got, expected)
    close(latent_values(scene.q, scene.cache[0], plain, SCALE, up), expected)


def test_latents_that_fill_no_product_are_refused() -> None:
    scene = scene_of([3], 1, 2, torch.float32)
    _, kernels = planned(scene, scene.words)
    with pytest.raises(ValueError, match=r"no kernel for latents of 40 \+ 8 numbers"):
        latent_attention(scene.q, scene.cache[0], kernels, 40, SCALE)
