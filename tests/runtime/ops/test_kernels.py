"""Kernels in Triton's interpreter equal their references, on odd shapes and poisoned caches."""

from __future__ import annotations

import pytest
import torch

from ddtree.core.batch import Marginals
from ddtree.layers.rotary import Rotary
from ddtree.ops.backend import kernels_everywhere
from ddtree.ops.linear import gated_linear, linear
from ddtree.ops.rms_norm import rms_norm
from ddtree.ops.rope_kv import rope_kv
from ddtree.ops.sample import sample, uniform
from ddtree.ops.tree_accept import tree_accept
from ddtree.ops.tree_attention import Pattern, plan_attention, tree_attention, write_kv
from ddtree.ops.tree_build import tree_build
from tests.runtime.ops.paged import PAGE, Heads, Scene, make_scene

CPU_ONLY = pytest.mark.skipif(torch.cuda.is_available(), reason="tests/gpu runs the real kernels")
pytestmark = CPU_ONLY


def attended(scene: Scene, pattern: Pattern | torch.Tensor) -> torch.Tensor:
    keys, values = scene.cache.clone()
    new = scene.q.shape[1]
    longest = int(scene.start.max()) + new
    plan = plan_attention(
        scene.start,
        scene.page_table,
        new,
        pattern,
        PAGE,
        longest,
    )
    write_kv(keys, values, scene.kv[0], scene.kv[1], plan)
    return tree_attention(scene.q, keys, values, plan)


@pytest.mark.parametrize("nodes", [1, 9, 17], ids=lambda n: f"N{n}")
@pytest.mark.parametrize("starts", [[0], [63, 1], [130]], ids=str)
def test_tree_attention(starts: list[int], nodes: int) -> None:
    scene = make_scene(starts, nodes, Heads(2, 3, 64), torch.float32)
    expected = attended(scene, scene.words)
    with kernels_everywhere():
        got = attended(scene, scene.words)
    torch.testing.assert_close(got, expected, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("pattern", ["causal", "all"])
def test_prompts_and_blocks(pattern: Pattern) -> None:
    scene = make_scene([5, 70], 16, Heads(1, 4, 64), torch.float32)
    expected = attended(scene, pattern)
    with kernels_everywhere():
        got = attended(scene, pattern)
    torch.testing.assert_close(got, expected, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("budget", [1, 12, 63, 64])
@pytest.mark.parametrize("levels", [2, 10**6], ids=["ties", "no-ties"])
def test_trees_and_paths(budget: int, levels: int) -> None:
    generator = torch.Generator().manual_seed(budget)
    raw = torch.randint(0, levels, (3, 15, budget), generator=generator).float()
    logprobs = torch.log_softmax(raw, -1).sort(-1, descending=True).values
    tokens = torch.rand(3, 15, 100, generator=generator).argsort(-1)[..., :budget].contiguous()
    root, given = torch.arange(3), Marginals(tokens, logprobs)
    expected = tree_build(root, given, budget)
    chosen = expected.tokens.roll(-1, 1)
    path = tree_accept(expected, chosen, 15)
    with kernels_everywhere():
        got = tree_build(root, given, budget)
        got_path = tree_accept(got, chosen, 15)
    for name in ("tokens", "parents", "depths", "ancestors", "scores"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name
    for name in ("path", "length", "tokens"):
        assert torch.equal(getattr(got_path, name), getattr(path, name)), name


@pytest.mark.parametrize("rows", [1, 9, 17])
def test_products_norms_and_rotary_positions(rows: int) -> None:
    torch.manual_seed(rows)
    x, weight = torch.randn(1, rows, 96), torch.randn(160, 96) / 10
    residual = torch.randn(1, rows, 160)
    joint = torch.randn(1, rows, 4 + 2 * 2, 64)
    angles = Rotary(64, 1e4, torch.device("cpu"))(torch.arange(rows).unsqueeze(0), torch.float32)
    slots = torch.randperm(40)[:rows].unsqueeze(0)

    def run() -> list[torch.Tensor]:
        kv = torch.full((2, 40, 2, 64), torch.nan)
        q = rope_kv(joint, (angles.cos, angles.sin), (kv[0], kv[1]), slots)
        return [
            linear(x, weight, residual),
            gated_linear(x, weight),
            rms_norm(x, weight[0], 1e-5),
            q,
            kv,
        ]

    expected = run()
    with kernels_everywhere():
        got = run()
    for mine, reference in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-4, rtol=1e-4, equal_nan=True)


def test_draws() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(4, 3, 200, generator=generator)
    temperature, top_p = torch.tensor([0.0, 1.0, 0.7, 1.3]), torch.tensor([1.0, 1.0, 0.9, 0.5])
    seeds, positions = torch.arange(4).unsqueeze(1), torch.arange(3).unsqueeze(0)
    draw = uniform(seeds, positions)
    expected = sample(logits, temperature, top_p, draw, method="nucleus")
    with kernels_everywhere():
        assert torch.equal(uniform(seeds, positions), draw)
        got = sample(logits, temperature, top_p, draw, method="nucleus")
    assert torch.equal(got, expected)
