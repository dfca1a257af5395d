"""The attention kernels, interpreted, agree with the reference on poisoned pages."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.tree_attention import (
    AttentionPlan,
    launch,
    plan_attention,
    tree_attention,
    write_kv,
)
from tests.runtime.ops.interpreted import close, interpreted, poisoned
from tests.runtime.ops.paged import PAGE, Heads, Scene, make_scene

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
@pytest.mark.parametrize("whole", [False, True], ids=["split", "whole"])
def test_nodes_attend_as_the_reference_says(
    starts: list[int], nodes: int, pattern: str, whole: object
) -> None:
    scene = make_scene(starts, nodes, HEADS, torch.float32, seed=nodes)
    plain, kernels = planned(scene, scene.words if pattern == "tree" else pattern)
    assert torch.equal(kernels.write_slots, plain.write_slots)
    assert kernels.paged is not None
    write_kv(scene.cache[0], scene.cache[1], scene.kv[0], scene.kv[1], plain)
    out = poisoned(*scene.q.shape)
    blocks = launch.Blocks(16, whole=bool(whole))
    launch.attend(scene.q, (scene.cache[0], scene.cache[1]), kernels.paged, out, blocks)
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
        path = [node]
        while scene.parents[path[0]] >= 0:
            path.insert(0, scene.parents[path[0]])
        expected = [int(plain.write_slots[0, ancestor]) for ancestor in path]
        assert kernels.paged.path[0, node, : len(path)].tolist() == expected
        assert int(kernels.paged.last[0, node]) == 7 + len(path) - 1


def test_more_heads_than_a_tail_holds_are_refused() -> None:
    scene = make_scene([3], 1, Heads(1, 17, 16), torch.float32)
    _, kernels = planned(scene, scene.words)
    with pytest.raises(ValueError, match="17 heads are too many for 1"):
        tree_attention(scene.q, scene.cache[0], scene.cache[1], kernels)
