"""On a GPU in bf16, a node's attention has the very bits of autoregressive decode."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from ddtree.ops.tree_attention import launch, plan_attention, tree_attention, write_kv
from tests.runtime.ops.paged import PAGE, Heads, Scene, decode_of, make_scene, moved

pytestmark = pytest.mark.gpu
SMOL, QWEN = Heads(3, 3, 64), Heads(8, 4, 128)


def attention(
    scene: Scene, pattern: torch.Tensor | str, blocks: launch.Blocks | None = None
) -> torch.Tensor:
    """Attention of the scene's tokens; its keys and values are written first."""
    cache = scene.cache.clone()
    new = scene.q.shape[1]
    longest = int(scene.start.max()) + new
    plan = plan_attention(scene.start, scene.page_table, new, pattern, PAGE, longest)  # type: ignore[arg-type]
    write_kv(cache[0], cache[1], scene.kv[0], scene.kv[1], plan)
    if blocks is None or plan.paged is None:
        return tree_attention(scene.q, cache[0], cache[1], plan)
    out = torch.full_like(scene.q, float("nan"))
    launch.attend(scene.q, (cache[0], cache[1]), plan.paged, out, blocks)
    return out


@pytest.mark.parametrize("heads", [SMOL, QWEN], ids=["smol", "qwen"])
@pytest.mark.parametrize("nodes", [1, 17, 65, 257])
def test_trees_agree_with_the_reference(heads: Heads, nodes: int) -> None:
    scene = make_scene([0, 1, 63, 300], nodes, heads, torch.bfloat16)
    on_gpu = moved(scene, "cuda")
    wide = Scene(
        scene.start, scene.page_table, scene.cache.float(), scene.parents,
        scene.q.float(), scene.kv.float(),
    )  # fmt: skip
    for pattern in (scene.words, "causal", "all"):
        there = pattern.cuda() if isinstance(pattern, torch.Tensor) else pattern
        got = attention(on_gpu, there).float().cpu()
        expected = attention(wide, pattern)
        assert (got - expected).norm() / expected.norm() < 5e-3


@pytest.mark.parametrize("heads", [SMOL, QWEN], ids=["smol", "qwen"])
@pytest.mark.parametrize("start", [0, 1, 40, 63, 100, 250, 1003])
def test_every_node_has_the_bits_of_decode(heads: Heads, start: int) -> None:
    for nodes in (2, 17, 65, 257):
        scene = moved(make_scene([start], nodes, heads, torch.bfloat16, seed=start), "cuda")
        tree = attention(scene, scene.words)[0]
        alone = decode_of(scene, 0)
        decoded = attention(alone, alone.words)[:, 0]
        assert torch.equal(tree, decoded), f"{nodes} nodes: {(tree != decoded).sum()} differ"


@pytest.mark.parametrize("heads", [SMOL, QWEN], ids=["smol", "qwen"])
def test_a_prompt_has_the_same_bits_however_it_is_cut(heads: Heads) -> None:
    scene = moved(make_scene([0], 700, heads, torch.bfloat16), "cuda")
    whole = attention(scene, "causal")
    cache = scene.cache.clone()
    outs = []
    for begin, end in ((0, 1), (1, 65), (65, 300), (300, 301), (301, 700)):
        start = torch.tensor([begin], device="cuda")
        plan = plan_attention(start, scene.page_table, end - begin, "causal", PAGE, end)
        write_kv(cache[0], cache[1], scene.kv[0, :, begin:end], scene.kv[1, :, begin:end], plan)
        outs.append(tree_attention(scene.q[:, begin:end], cache[0], cache[1], plan))
    assert torch.equal(whole, torch.cat(outs, 1))


@pytest.mark.parametrize("heads", [SMOL, QWEN], ids=["smol", "qwen"])
def test_no_cut_of_the_work_changes_a_bit(heads: Heads) -> None:
    scene = moved(make_scene([1500, 700], 33, heads, torch.bfloat16), "cuda")
    for pattern in (scene.words, "causal"):
        expected = attention(scene, pattern, launch.Blocks(16, "tile"))
        for rows, warps, stages in ((16, 4, 5), (32, 4, 3), (64, 4, 3), (64, 8, 2)):
            for part in get_args(launch.Part):
                blocks = launch.Blocks(rows, part, warps, stages)
                assert torch.equal(attention(scene, pattern, blocks), expected), blocks


def test_nodes_that_share_a_tail_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = moved(make_scene([77], 65, SMOL, torch.bfloat16), "cuda")
    expected = attention(scene, scene.words)
    for nodes in (1, 2):
        monkeypatch.setattr(launch, "TAIL_NODES", nodes)
        assert torch.equal(attention(scene, scene.words), expected)


def test_long_contexts_take_larger_chunks() -> None:
    heads = Heads(2, 4, 128)
    scene = moved(make_scene([9000], 5, heads, torch.bfloat16), "cuda")
    tree = attention(scene, scene.words)[0]
    alone = decode_of(scene, 0)
    assert torch.equal(tree, attention(alone, alone.words)[:, 0])
    tiles, groups, whole = (
        attention(scene, scene.words, launch.Blocks(64, part, 8)) for part in get_args(launch.Part)
    )
    assert torch.equal(tiles, groups) and torch.equal(groups, whole)
