"""Every op replays in a graph as it runs eagerly, on trees that were not there at capture."""

from __future__ import annotations

import pytest
import torch

from ddtree.core.batch import DraftTree, Marginals
from ddtree.ops.kv_commit import commit_slots, kv_commit
from ddtree.ops.linear import gated_linear, linear, linear_and_half
from ddtree.ops.rms_norm import rms_norm
from ddtree.ops.rope_kv import rope_kv
from ddtree.ops.sample import Chance, sample
from ddtree.ops.tree_accept import tree_accept
from ddtree.ops.tree_attention import plan_attention, tree_attention
from ddtree.ops.tree_build import tree_build

pytestmark = pytest.mark.gpu
ROWS, HEADS, KV_HEADS, DIM, HIDDEN, DEEP, VOCABULARY = 3, 9, 3, 64, 576, 15, 1000


class Layer:
    """One layer and a head with random weights, between a tree's growth and its commit."""

    def __init__(self, budget: int) -> None:
        def weight(n: int, k: int) -> torch.Tensor:
            return torch.randn(n, k, device="cuda").div(k**0.5).bfloat16()

        torch.manual_seed(budget)
        self.budget = budget
        self.embedding = torch.randn(VOCABULARY, HIDDEN, device="cuda").bfloat16()
        self.qkv = weight((HEADS + 2 * KV_HEADS) * DIM, HIDDEN)
        self.output, self.down = weight(HIDDEN, HEADS * DIM), weight(HIDDEN, 1536)
        self.gate_up = weight(3072, HIDDEN)
        self.norm = torch.ones(HIDDEN, device="cuda").bfloat16()
        self.table = (torch.randperm(ROWS * 40) + 1).reshape(ROWS, 40).cuda()
        self.kv = torch.randn(1, 2, (ROWS * 40 + 1) * 16, KV_HEADS, DIM, device="cuda").bfloat16()
        self.start = torch.tensor([0, 100, 37], device="cuda")
        self.root = torch.tensor([1, 2, 3], device="cuda")
        self.ranked = torch.zeros(ROWS, DEEP, budget, dtype=torch.int64, device="cuda")
        self.logprobs = torch.zeros(ROWS, DEEP, budget, device="cuda")
        self.some = torch.full((ROWS,), 0.8, device="cuda")
        self.redraw(0)

    def redraw(self, seed: int) -> None:
        """Other marginals, prefixes and roots in the same buffers."""
        generator = torch.Generator(device="cuda").manual_seed(seed)
        raw = torch.randn(ROWS, DEEP, VOCABULARY, device="cuda", generator=generator) * 3
        top = torch.log_softmax(raw, -1).topk(self.budget, -1)
        self.ranked.copy_(top.indices)
        self.logprobs.copy_(top.values)
        self.start.copy_(torch.randint(0, 300, (ROWS,), device="cuda", generator=generator))
        self.root.copy_(torch.randint(0, 999, (ROWS,), device="cuda", generator=generator))

    def step(self) -> tuple[DraftTree, torch.Tensor, torch.Tensor]:
        tree = tree_build(self.root, Marginals(self.ranked, self.logprobs), self.budget)
        nodes = self.budget + 1
        plan = plan_attention(self.start, self.table, nodes, tree.ancestors, 16, 0)
        positions = self.start.unsqueeze(1) + tree.depths.clamp(min=0)
        angle = positions[..., None, None] * torch.linspace(0.01, 1, DIM // 2, device="cuda")
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)
        x = self.embedding[tree.tokens]
        joint = linear(rms_norm(x, self.norm, 1e-5), self.qkv).view(ROWS, nodes, -1, DIM)
        q = rope_kv(joint, (cos, sin), (self.kv[0, 0], self.kv[0, 1]), plan.write_slots)
        heads = tree_attention(q, self.kv[0, 0], self.kv[0, 1], plan).flatten(2)
        x, half = linear_and_half(heads, self.output, x, self.norm, 1e-5)
        x = linear(gated_linear(half, self.gate_up), self.down, x)
        logits = linear(x, self.embedding, dtype=torch.float32)
        chance = Chance(self.root, positions)
        chosen = sample(logits, self.some, self.some, chance, method="nucleus").tokens
        verdict = tree_accept(tree, chosen, DEEP)
        moves = commit_slots(self.start, self.table, 16, verdict.path, verdict.length)
        kv_commit(self.kv, moves.source, moves.target)
        return tree, logits, verdict.tokens


@pytest.mark.parametrize("budget", [1, 8, 12, 16, 32, 64, 256])
def test_replay_is_eager_on_changing_trees(budget: int) -> None:
    layer = Layer(budget)
    before = layer.kv.clone()
    layer.step()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _, logits, tokens = layer.step()
    for seed in range(1, 6):
        layer.redraw(seed)
        layer.kv.copy_(before)
        _, wanted_logits, wanted_tokens = layer.step()
        wanted_kv = layer.kv.clone()
        layer.kv.copy_(before)
        logits.fill_(float("nan"))
        graph.replay()
        assert torch.equal(logits, wanted_logits)
        assert torch.equal(tokens, wanted_tokens)
        assert torch.equal(layer.kv, wanted_kv)
