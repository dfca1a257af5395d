"""The attention kernels, interpreted, agree with the reference on poisoned pages."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.state_sum import launch as sums
from ddtree.ops.tree_attention import (
    AttentionPlan,
    launch,
    plan_attention,
    tree_attention,
    write_kv,
)
from tests.runtime.ops.interpreted import close, interpreted, poison, poisoned
from tests.runtime.ops.paged import PAGE, Heads, Scene, make_scene, path_of

pytestmark = interpreted
HEADS = Heads(2, 3, 16)


def planned(scene: Scene, pattern: torch.Tensor | str) -> tuple[AttentionPlan, AttentionPlan]:
    """The reference's plan and the kernels'."""
    new = scene.q.shape[1]
    longest = int(scene.start.max()) + new
    sizes = (scene.start, scene.page_table, new, pattern, PAGE, longest)
    plain = plan_attention(*sizes)  # type: ignore[arg-type]
    with kernels_everywhere():
        return plain, plan_attention(*sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["tree", "causal", "all"])
@pytest.mark.parametrize(
    ("starts", "nodes"),
    [([0], 1), ([70, 0], 3), ([63], 17), ([5, 300], 2), ([15, 16, 79], 6), ([143], 5)],
    ids=str,
)
@pytest.mark.parametrize("part", get_args(launch.Part))
def test_nodes_attend_as_the_reference_says(
    starts: list[int], nodes: int, pattern: str, part: launch.Part
) -> None:
    scene = make_scene(starts, nodes, HEADS, torch.float32, seed=nodes)
    plain, kernels = planned(scene, scene.words if pattern == "tree" else pattern)
    assert torch.equal(kernels.write_slots, plain.write_slots)
    assert kernels.paged is not None
    write_kv(scene.cache[0], scene.cache[1], scene.kv[0], scene.kv[1], plain)
    out = poisoned(*scene.q.shape)
    with poison():
        launch.attend(
            scene.q, (scene.cache[0], scene.cache[1]), kernels.paged, out, launch.Blocks(16, part)
        )
    close(out, tree_attention(scene.q, scene.cache[0], scene.cache[1], plain))


def test_half_precision_is_rounded_not_lost() -> None:
    scene = make_scene([40], 9, HEADS, torch.float16)
    plain, kernels = planned(scene, scene.words)
    write_kv(scene.cache[0], scene.cache[1], scene.kv[0], scene.kv[1], plain)
    expected = tree_attention(scene.q, scene.cache[0], scene.cache[1], plain)
    close(tree_attention(scene.q, scene.cache[0], scene.cache[1], kernels), expected)


def test_a_path_is_the_slots_of_the_ancestors_in_depth_order() -> None:
    scene = make_scene([7], 65, HEADS, torch.float32)
    plain, kernels = planned(scene, scene.words)
    assert kernels.paged is not None and kernels.paged.path is not None
    for node in (0, 1, 40, 64):
        path = path_of(scene.parents, node)
        expected = [int(plain.write_slots[0, ancestor]) for ancestor in path]
        assert kernels.paged.path[0, node, : len(path)].tolist() == expected
        assert int(kernels.paged.last[0, node]) == 7 + len(path) - 1


@pytest.mark.parametrize("start", [0, 7, 31, 33])
def test_a_tail_is_the_cached_slots_behind_an_edge_and_then_the_path(start: int) -> None:
    scene = make_scene([start], 65, HEADS, torch.float32)
    for pattern in (scene.words, "causal", "all"):
        with poison():
            plain, kernels = planned(scene, pattern)
        assert kernels.paged is not None
        for node in (0, 1, 40, 64):
            last = int(kernels.paged.last[0, node])
            edge = max(last - 15, 0) // 16 * 16
            slots = [
                page * PAGE + at for page in scene.page_table[0].tolist() for at in range(PAGE)
            ]
            if isinstance(pattern, torch.Tensor):
                path = [int(plain.write_slots[0, a]) for a in path_of(scene.parents, node)]
                slots = slots[:start] + path
            wanted = slots[edge : last + 1]
            tail = kernels.paged.tail[0, node].tolist()
            assert tail == wanted + [-1] * (32 - len(wanted))


@pytest.mark.parametrize("flying", [32, 2048])
def test_the_sum_of_many_groups_and_of_far_ones(
    flying: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turned early, tiles beyond the turn are groups of two, whatever a program takes.

    Half a row is summed at once, of four states or of all.
    """
    monkeypatch.setattr(launch, "CUTS", launch.Cuts(tile=64, near=4, far=2, turn=4))
    monkeypatch.setattr(launch, "PIECE", 8)
    monkeypatch.setattr(sums, "FLYING", flying)
    scene = make_scene([620, 200], 2, Heads(1, 2, 16), torch.float32)
    plain, kernels = planned(scene, scene.words)
    assert kernels.paged is not None
    write_kv(scene.cache[0], scene.cache[1], scene.kv[0], scene.kv[1], plain)
    expected = tree_attention(scene.q, scene.cache[0], scene.cache[1], plain)
    for part in get_args(launch.Part):
        out = poisoned(*scene.q.shape)
        cache = (scene.cache[0], scene.cache[1])
        with poison():
            launch.attend(scene.q, cache, kernels.paged, out, launch.Blocks(16, part))
        close(out, expected)


def test_a_rest_of_rows_takes_a_smaller_block() -> None:
    scene = make_scene([150], 11, HEADS, torch.float32)  # 33 rows: two blocks of 16, and one row
    plain, kernels = planned(scene, scene.words)
    assert kernels.paged is not None
    write_kv(scene.cache[0], scene.cache[1], scene.kv[0], scene.kv[1], plain)
    expected = tree_attention(scene.q, scene.cache[0], scene.cache[1], plain)
    for rows in (16, 32):
        out = poisoned(*scene.q.shape)
        cache = (scene.cache[0], scene.cache[1])
        launch.attend(scene.q, cache, kernels.paged, out, launch.Blocks(rows, "group"))
        close(out, expected)


def test_more_heads_than_a_tail_holds_are_refused() -> None:
    scene = make_scene([3], 1, Heads(1, 17, 16), torch.float32)
    _, kernels = planned(scene, scene.words)
    with pytest.raises(ValueError, match="17 heads are too many for 1"):
        tree_attention(scene.q, scene.cache[0], scene.cache[1], kernels)
