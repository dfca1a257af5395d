"""On a GPU, what surrounds attention and products equals its torch reference."""

from __future__ import annotations

import pytest
import torch

from ddtree.core.batch import DraftTree, Marginals, Verdict
from ddtree.layers.rotary import frequencies
from ddtree.ops.angles import angles
from ddtree.ops.draft_block import draft_block
from ddtree.ops.embed import embed
from ddtree.ops.kv_commit import commit_slots, kv_commit
from ddtree.ops.marginals import marginals
from ddtree.ops.path_features import path_features
from ddtree.ops.rms_norm import rms_norm
from ddtree.ops.rope_kv import rope_kv, write_context
from ddtree.ops.sample import Chance, Narrowing, sample
from ddtree.ops.tally import Moved, tally
from ddtree.ops.tree_accept import tree_accept
from ddtree.ops.tree_build import Bounds, chain, root_only, tree_build
from tests.runtime.ops.drafts import drafted, likely

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("budget", [1, 8, 12, 16, 32, 64, 256])
@pytest.mark.parametrize("levels", [2, 5, 10**6])
def test_trees_paths_and_caches_equal_the_references(budget: int, levels: int) -> None:
    rows, deep = 5, 15
    given = drafted(rows, deep, budget, levels)
    root = torch.arange(rows) + 5
    expected = tree_build(root, given, budget)
    got = tree_build(root.cuda(), Marginals(given.tokens.cuda(), given.logprobs.cuda()), budget)
    for field in ("tokens", "parents", "depths", "ancestors", "scores"):
        assert torch.equal(getattr(got, field).cpu(), getattr(expected, field)), field

    nodes = max(2, budget // 2)  # a prefix of the built tree is verified
    chosen = likely(expected.prefix(nodes))
    verdict = tree_accept(expected.prefix(nodes), chosen, deep)
    on_gpu: Verdict = tree_accept(got.prefix(nodes), chosen.cuda(), deep)
    assert torch.equal(on_gpu.path.cpu(), verdict.path)
    assert torch.equal(on_gpu.length.cpu(), verdict.length)
    assert torch.equal(on_gpu.tokens.cpu(), verdict.tokens)

    start = torch.randint(0, 30, (rows,))
    table = (torch.randperm(rows * 20) + 1).reshape(rows, 20)
    moves = commit_slots(start, table, 16, verdict.path, verdict.length)
    on_gpu_moves = commit_slots(start.cuda(), table.cuda(), 16, on_gpu.path, on_gpu.length)
    cache = torch.randn(3, 2, (rows * 20 + 1) * 16, 3, 64).bfloat16()
    moved = cache.cuda()
    assert torch.equal(on_gpu_moves.positions.cpu(), moves.positions)
    kv_commit(moved, on_gpu_moves.source, on_gpu_moves.target)
    kv_commit(cache, moves.source, moves.target)
    assert torch.equal(moved.cpu(), cache)


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(9, 3, 64), (32, 8, 128)])
@pytest.mark.parametrize("eps", [None, 1e-6], ids=["plain", "normed"])
def test_rotary_keys_and_values_reach_their_slots(
    heads: int, kv_heads: int, dim: int, eps: float | None
) -> None:
    torch.manual_seed(dim)
    joint = torch.randn(2, 7, heads + 2 * kv_heads, dim).bfloat16()
    angle = torch.rand(2, 7, 1, dim // 2) * 6
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)
    slots = torch.randperm(40)[:14].reshape(2, 7)
    weight = torch.randn(heads + kv_heads, dim).bfloat16()
    norm = None if eps is None else (weight, eps)
    there = (norm[0].cuda(), norm[1]) if norm else None
    cache = torch.full((2, 40, kv_heads, dim), float("nan")).bfloat16()
    filled = cache.cuda()
    q = rope_kv(joint, (cos, sin), (cache[0], cache[1]), slots, norm)
    angles = (cos.cuda(), sin.cuda())
    on_gpu = rope_kv(joint.cuda(), angles, (filled[0], filled[1]), slots.cuda(), there)
    close(on_gpu, q)
    close(filled, cache)

    context = torch.randn(2, 7, 5, 2, kv_heads, dim).bfloat16()
    norms = (torch.randn(5, kv_heads, dim).bfloat16(), 1e-6)
    pool = torch.full((5, 2, 40, kv_heads, dim), float("nan")).bfloat16()
    pool_there = pool.cuda()
    write_context(context, (cos, sin), pool, slots, norms)
    write_context(context.cuda(), angles, pool_there, slots.cuda(), (norms[0].cuda(), 1e-6))
    close(pool_there, pool)


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to one unit in the last place of bf16, NaN where NaN."""
    torch.testing.assert_close(got.cpu(), expected, rtol=8e-3, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("width", [576, 2880, 4096])
def test_norms_agree_and_rows_do_not_know_each_other(width: int) -> None:
    x = torch.randn(33, width).bfloat16()
    delta, weight = torch.randn(33, width).bfloat16(), torch.randn(width).bfloat16()
    summed, here = x.cuda(), x.clone()
    got = rms_norm(summed, weight.cuda(), 1e-5, delta=delta.cuda())
    close(got, rms_norm(here, weight, 1e-5, delta=delta))
    assert torch.equal(summed.cpu(), here)
    assert torch.equal(rms_norm(summed[3:4], weight.cuda(), 1e-5), got[3:4])


@pytest.mark.parametrize("vocabulary", [777, 49152])
def test_draws_equal_the_reference_but_at_the_edges_of_float32(vocabulary: int) -> None:
    torch.manual_seed(vocabulary)
    rows, nodes = 6, 40
    logits = torch.randn(rows, nodes, vocabulary) * 3
    temperature = torch.tensor([0.0, 0.6, 1.0, 1.3, 0.9, 0.0])
    top_p = torch.tensor([1.0, 0.9, 1.0, 0.5, 0.95, 0.5])
    narrowing = Narrowing(torch.tensor([0, 0, 20, 5, 0, 9]), torch.tensor([0, 0, 0, 0, 0.02, 0]))
    chance = Chance(torch.arange(rows), torch.arange(nodes).expand(rows, -1))
    there = Chance(chance.seed.cuda(), chance.position.cuda())
    extra = Narrowing(narrowing.top_k.cuda(), narrowing.min_p.cuda())
    for method in ("greedy", "full", "nucleus"):
        expected = sample(logits, temperature, top_p, chance, method=method, narrowing=narrowing)
        got = sample(
            logits.cuda(), temperature.cuda(), top_p.cuda(), there, method=method, narrowing=extra
        )
        assert torch.equal(got.peak.cpu(), expected.peak)
        assert (got.tokens.cpu() != expected.tokens).sum() <= (0 if method == "greedy" else 1)
        assert torch.equal(got.tokens[0].cpu(), logits[0].argmax(-1))


@pytest.mark.parametrize("vocabulary", [300, 49152, 151936])
@pytest.mark.parametrize("width", [1, 16, 64, 256])
def test_marginals_are_the_best_tokens_in_order(vocabulary: int, width: int) -> None:
    torch.manual_seed(width)
    logits = torch.randn(2, 15, vocabulary, device="cuda") * 3
    got = marginals(logits, width)
    ordered = torch.sort(logits, dim=-1, descending=True, stable=True)
    assert torch.equal(got.tokens, ordered.indices[..., :width])
    expected = ordered.values[..., :width] - logits.logsumexp(-1, keepdim=True)
    torch.testing.assert_close(got.logprobs, expected, atol=2e-5, rtol=1e-5)


def test_rounded_logits_are_read_as_they_are() -> None:
    logits = (torch.randn(2, 15, 49152, device="cuda") * 4).bfloat16()  # with ties
    given = (torch.zeros(2, device="cuda"), torch.ones(2, device="cuda"))
    nodes = torch.arange(15, device="cuda").expand(2, -1).int()
    chance = Chance(torch.arange(2, device="cuda"), nodes)
    ordered = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    assert torch.equal(marginals(logits, 64).tokens, ordered.indices[..., :64])
    got = sample(logits, *given, chance, method="nucleus")
    assert torch.equal(got.tokens, ordered.indices[..., 0])
    assert torch.equal(got.peak, ordered.values[..., 0])
    logits[1, 3, 40_000], logits[1, 4, 0] = float("nan"), float("inf")
    peak = sample(logits, *given, chance, method="greedy").peak
    assert (~peak.isfinite()).nonzero().tolist() == [[1, 3], [1, 4]]
    logits[0] = -float("nan")
    odd = marginals(logits, 64)
    assert odd.logprobs[0].isnan().all() and odd.logprobs[1, 3].isnan().all()
    assert ((odd.tokens >= 0) & (odd.tokens < 49152)).all()
    assert (tree_build(odd.tokens[:, 0, 0], odd, 64).depths[:, 1:] == -1).all()


def test_bounded_trees_chains_features_and_blocks_equal_the_references() -> None:
    given, root = drafted(5, 15, 64, 9), torch.arange(5) + 3
    never = float("-inf")
    here = Bounds(torch.tensor([99, 4, 99, 99, 0]), torch.tensor([0.0, 0.0, -1.5, never, 0.0]))
    there = Bounds(here.limit.cuda(), here.branch.cuda())
    moved = Marginals(given.tokens.cuda(), given.logprobs.cuda())
    pairs = (
        (tree_build(root, given, 64, here), tree_build(root.cuda(), moved, 64, there)),
        (chain(root, given, here), chain(root.cuda(), moved, there)),
        (root_only(root), root_only(root.cuda())),
    )
    for expected, got in pairs:
        for field in ("tokens", "parents", "depths", "ancestors"):
            assert torch.equal(getattr(got, field).cpu(), getattr(expected, field)), field
    layers = tuple(torch.randn(5, 65, 576).bfloat16() for _ in range(5))
    path = torch.randint(0, 65, (5, 16))
    on_gpu = path_features(tuple(layer.cuda() for layer in layers), path.cuda())
    assert torch.equal(on_gpu.cpu(), path_features(layers, path))
    tokens, positions = draft_block(root.cuda(), root.cuda() + 40, 16, 13)
    expected_block = draft_block(root, root + 40, 16, 13)
    assert torch.equal(tokens.cpu(), expected_block[0])
    assert torch.equal(positions.cpu(), expected_block[1])


def test_rows_of_a_table_are_the_references() -> None:
    table, tokens = torch.randn(40, 4100).bfloat16(), torch.randint(0, 99, (3, 17))
    for first in (0, 30):
        on_gpu = embed(tokens.cuda(), table.cuda(), first)
        assert torch.equal(on_gpu.cpu(), embed(tokens, table, first))


@pytest.mark.parametrize("dim", [64, 128])
def test_angles_of_far_positions_are_as_exact_as_of_near_ones(dim: int) -> None:
    half = frequencies(dim, 1e6)
    frequency = torch.cat((half, half))
    positions = torch.tensor([[0, 1, 77, 8191], [40_000, 131_071, 262_143, 5]])
    expected = angles(positions, frequency, 1.28, torch.float32)
    got = angles(positions.cuda(), frequency.cuda(), 1.28, torch.float32)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, atol=2e-6, rtol=1e-6)


def test_a_step_is_tallied_and_its_rows_move_as_in_the_reference() -> None:
    budgets = (1, 16, 64)
    tree = tree_build(torch.tensor([7, 8, 9]), drafted(3, 15, 64, 5), 64)
    length = torch.tensor([1, 16, 5])
    said = Verdict(torch.zeros(3, 16, dtype=torch.int64), length, torch.arange(48).view(3, 16))
    peak = torch.full((3, 65), 3.5)
    peak[1, 64], peak[2, 0] = torch.nan, torch.inf
    there, here = (
        Moved(torch.tensor([4, 5, 0]).to(d), 5, torch.arange(6).to(d), torch.arange(6).to(d))
        for d in ("cuda", "cpu")
    )
    assert tree.scores is not None
    expected = tally(tree, tree.scores, said, peak, budgets, here)
    on_gpu = DraftTree(
        *(t.cuda() for t in (tree.tokens, tree.parents, tree.depths, tree.ancestors))
    )
    moved = Verdict(said.path.cuda(), said.length.cuda(), said.tokens.cuda())
    got = tally(on_gpu, tree.scores.cuda(), moved, peak.cuda(), budgets, there)
    torch.testing.assert_close(got.cpu(), expected, atol=1e-6, rtol=1e-6)
    assert torch.equal(there.start.cpu(), here.start) and torch.equal(there.root.cpu(), here.root)
