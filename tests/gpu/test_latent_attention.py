"""On a GPU in bf16, a node's latent attention has the very bits of autoregressive decode."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.head_linear import head_linear
from ddtree.ops.latent_attention import latent_attention, latent_values, launch
from ddtree.ops.latent_values import launch as after
from ddtree.ops.rope_latents import latent_queries, rope_latents
from ddtree.ops.tree_attention import plan_attention
from tests.runtime.ops.paged import PAGE, Heads, Scene, decode_of, make_scene, moved

pytestmark = pytest.mark.gpu
RANK, ROPE, SCALE = 512, 64, 0.07  # Kimi-K2.6


def scene_of(starts: list[int], nodes: int, heads: int = 8, seed: int = 0) -> Scene:
    """An eighth of the model's heads, unless told."""
    return make_scene(starts, nodes, Heads(1, heads, RANK + ROPE), torch.bfloat16, seed=seed)


def attention(
    scene: Scene, pattern: torch.Tensor | str, blocks: launch.Blocks | None = None
) -> torch.Tensor:
    """Attention of the scene's tokens; their latents are written first."""
    latents, new = scene.cache[0].clone(), scene.q.shape[1]
    longest = int(scene.start.max()) + new
    plan = plan_attention(scene.start, scene.page_table, new, pattern, PAGE, longest)  # type: ignore[arg-type]
    latents.index_copy_(0, plan.write_slots.flatten(), scene.kv[0].flatten(0, 1))
    if blocks is None or plan.paged is None:
        return latent_attention(scene.q, latents, plan, RANK, SCALE)
    out = torch.full_like(scene.q[..., :RANK], float("nan")).contiguous()
    launch.attend(scene.q, latents, plan.paged, SCALE, out, blocks)
    return out


@pytest.mark.parametrize(("nodes", "heads"), [(9, 1), (1, 8), (17, 8), (65, 8), (17, 64)], ids=str)
def test_trees_agree_with_the_reference(nodes: int, heads: int) -> None:
    scene = scene_of([0, 1, 63, 300], nodes, heads)
    wide = Scene(
        scene.start, scene.page_table, scene.cache.float(), scene.parents,
        scene.q.float(), scene.kv.float(),
    )  # fmt: skip
    on_gpu = moved(scene, "cuda")
    for pattern in (scene.words, "causal"):
        there = pattern.cuda() if isinstance(pattern, torch.Tensor) else pattern
        got = attention(on_gpu, there).float().cpu()
        expected = attention(wide, pattern)
        assert (got - expected).norm() / expected.norm() < 5e-3


@pytest.mark.parametrize("start", [0, 1, 40, 63, 130, 1003, 5000])
def test_every_node_has_the_bits_of_decode(start: int) -> None:
    for nodes in (2, 13, 65):
        scene = moved(scene_of([start], nodes, seed=start), "cuda")
        tree = attention(scene, scene.words)[0]
        alone = decode_of(scene, 0)
        decoded = attention(alone, alone.words)[:, 0]
        assert torch.equal(tree, decoded), f"{nodes} nodes: {(tree != decoded).sum()} differ"


def test_no_cut_of_the_work_changes_a_bit() -> None:
    scene = moved(scene_of([1500, 700], 33), "cuda")
    for pattern in (scene.words, "causal"):
        expected = attention(scene, pattern, launch.Blocks(16, whole=False))
        for rows in (16, 32, 64):
            for whole in (False, True) if rows == 16 else (False,):
                for stages in (2, 4, 9):
                    blocks = launch.Blocks(rows, whole, stages)
                    assert torch.equal(attention(scene, pattern, blocks), expected), blocks


@pytest.mark.parametrize("nodes", [1, 2, 9, 17, 33, 65])
@pytest.mark.parametrize("start", [0, 1003])
def test_values_have_the_bits_of_a_product_behind(nodes: int, start: int) -> None:
    scene = moved(scene_of([start], nodes, seed=start), "cuda")
    plan = plan_attention(scene.start, scene.page_table, nodes, scene.words, PAGE, start + nodes)
    latents = scene.cache[0].clone()
    latents.index_copy_(0, plan.write_slots.flatten(), scene.kv[0].flatten(0, 1))
    up = (torch.randn(8, 256, RANK, device="cuda") / RANK**0.5).bfloat16()[:, 128:]
    expected = head_linear(latent_attention(scene.q, latents, plan, RANK, SCALE), up)
    assert torch.equal(latent_values(scene.q, latents, plan, SCALE, up), expected)
    assert plan.paged is not None
    states = launch.states(scene.q, latents, plan.paged, SCALE, RANK)
    for by in (after.Blocks(16), after.Blocks(16, 2, 8), after.Blocks(32, 8), after.Blocks(64, 8)):
        out = torch.full_like(expected, float("nan"))
        after.values(states, up, out, by)
        assert torch.equal(out, expected), by


def test_a_token_has_the_same_bits_whatever_is_beside_it() -> None:
    torch.manual_seed(0)
    queries = torch.randn(1, 70, 8, 192, device="cuda").bfloat16()
    joint = torch.randn(1, 70, 2112, device="cuda").bfloat16()
    key_up = torch.randn(8, 128, 512, device="cuda").bfloat16()
    angle = torch.rand(1, 70, 1, 64, device="cuda").bfloat16()
    norm = (torch.ones(512, device="cuda").bfloat16(), 1e-6)
    second = (torch.ones(1536, device="cuda").bfloat16(), 1e-6)

    def run(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
        latents = torch.zeros(80, 1, 576, device="cuda").bfloat16()
        slots = torch.arange(70, device="cuda")[None, part]
        turn = (angle[:, part], angle[:, part])
        narrow = rope_latents(joint[:, part], turn, (latents, slots), norm, second)
        q = latent_queries(queries[:, part], key_up, turn)
        return torch.cat((q.flatten(2), narrow), dim=-1), latents[part]

    q, latents = run(slice(0, 70))
    for part in (slice(0, 1), slice(3, 12), slice(20, 53)):
        alone_q, alone = run(part)
        assert torch.equal(alone_q, q[:, part])
        assert torch.equal(alone, latents[part])


@pytest.mark.parametrize("nodes", [9, 13, 17, 33, 65])
def test_replay_is_eager_on_changing_trees(nodes: int) -> None:
    scenes = [moved(scene_of([200], nodes, seed=seed), "cuda") for seed in range(4)]
    held = scenes[0]
    start, words = held.start.clone(), held.words.clone()
    latents, q = held.cache[0].nan_to_num(), held.q.clone()

    def run() -> torch.Tensor:
        plan = plan_attention(start, held.page_table, nodes, words, PAGE, 0)
        return latent_attention(q, latents, plan, RANK, SCALE)

    run()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    for length, scene in zip((200, 0, 63, 129), scenes, strict=True):
        start.fill_(length)
        words.copy_(scene.words)
        q.copy_(scene.q)
        out.fill_(float("nan"))
        graph.replay()
        assert torch.equal(out, run())
