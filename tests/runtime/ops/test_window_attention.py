"""The kernels of windows, interpreted, agree with the reference on poisoned pages."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.tree_attention import (
    AttentionPlan,
    Pattern,
    plan_window,
    tree_attention,
    write_kv,
)
from ddtree.ops.window_attention import launch
from tests.runtime.ops.interpreted import close, interpreted, poison, poisoned
from tests.runtime.ops.paged import PAGE, Heads, Scene, make_scene

pytestmark = interpreted
CASES = [  # prefixes, new tokens, window
    ([0], 1, 4096),
    ([70, 0], 3, 2),
    ([63], 8, 64),
    ([5, 300, 128], 8, 100),
    ([143], 5, 3),
    ([200, 31], 17, 33),
    ([40], 2, 1),
]


def planned(scene: Scene, pattern: Pattern, window: int) -> AttentionPlan:
    new = scene.q.shape[1]
    return plan_window(scene.start, scene.page_table, new, pattern, PAGE, window)


def attended(scene: Scene, plan: AttentionPlan) -> torch.Tensor:
    return tree_attention(scene.q, scene.cache[0], scene.cache[1], plan)


def referred(scene: Scene, plan: AttentionPlan) -> torch.Tensor:
    """The reference's, which gathers what nobody wrote, and weighs it 0."""
    write_kv(scene.cache[0], scene.cache[1], scene.kv[0], scene.kv[1], plan)
    return attended(replace(scene, cache=scene.cache.nan_to_num()), plan)


@pytest.mark.parametrize("pattern", ["causal", "all"])
@pytest.mark.parametrize(("starts", "new", "window"), CASES, ids=str)
@pytest.mark.parametrize("heads", [Heads(2, 3, 16), Heads(1, 8, 32)], ids=str)
def test_a_window_is_the_references(
    starts: list[int], new: int, window: int, pattern: Pattern, heads: Heads
) -> None:
    scene = make_scene(starts, new, heads, torch.float32, seed=new)
    plain = planned(scene, pattern, window)
    expected = referred(scene, plain)
    with kernels_everywhere(), poison():
        kernels = planned(scene, pattern, window)
        assert torch.equal(kernels.write_slots, plain.write_slots)
        close(attended(scene, kernels), expected)


@pytest.mark.parametrize("blocks", [(16, 16, 4), (64, 32, 4), (128, 64, 8)], ids=str)
def test_no_cut_changes_more_than_roundings(blocks: tuple[int, int, int]) -> None:
    scene = make_scene([333, 20], 9, Heads(2, 4, 16), torch.float32)
    expected = referred(scene, planned(scene, "all", 200))
    out = poisoned(*scene.q.shape)
    with kernels_everywhere(), poison():
        paged = planned(scene, "all", 200).paged
        assert paged is not None
        kv = (scene.cache[0], scene.cache[1])
        launch.attend(scene.q, kv, paged, 200, out, launch.Blocks(*blocks))
    close(out, expected)


def test_a_row_alone_has_the_same_bits() -> None:
    scene = make_scene([100, 7, 250], 8, Heads(2, 2, 16), torch.float16)
    scene = replace(scene, cache=scene.cache.nan_to_num())
    second = replace(
        scene, start=scene.start[1:2], page_table=scene.page_table[1:2], q=scene.q[1:2]
    )
    with kernels_everywhere():
        together, alone = (attended(s, planned(s, "all", 64)) for s in (scene, second))
    assert torch.equal(together[1:2], alone)
