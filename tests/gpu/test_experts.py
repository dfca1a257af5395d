"""A mixture on the device: a token's bits alone and among others, eager and replayed."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.experts import expert_mlp, reference

pytestmark = pytest.mark.gpu
EXPERTS, ACTIVE, HIDDEN, INNER = 128, 8, 2048, 768  # Qwen3-30B-A3B

Data = tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor], torch.Tensor, torch.Tensor]


@pytest.fixture(scope="module")
def stacks() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    gate_up = torch.randn(EXPERTS, 2 * INNER, HIDDEN, device="cuda") / HIDDEN**0.5
    down = torch.randn(EXPERTS, HIDDEN, INNER, device="cuda") / INNER**0.5
    return gate_up.bfloat16(), down.bfloat16()


def routed(tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(tokens)
    x = torch.randn(tokens, HIDDEN, device="cuda").bfloat16()
    weights, chosen = torch.randn(tokens, EXPERTS, device="cuda").softmax(-1).topk(ACTIVE)
    return x, chosen, weights / weights.sum(-1, keepdim=True)


@pytest.mark.parametrize("tokens", [1, 17, 65, 512])
def test_the_kernels_are_the_reference_to_a_rounding(
    tokens: int, stacks: tuple[torch.Tensor, torch.Tensor]
) -> None:
    x, chosen, weights = routed(tokens)
    found = expert_mlp(x, stacks, chosen, weights, x).float()
    gate_up, down = (stack.float() for stack in stacks)
    wanted = reference.expert_mlp(x.float(), gate_up, down, chosen, weights) + x.float()
    assert (found - wanted).norm() < 0.01 * wanted.norm()


def test_a_tokens_bits_do_not_depend_on_the_others(
    stacks: tuple[torch.Tensor, torch.Tensor],
) -> None:
    x, chosen, weights = routed(257)
    together = expert_mlp(x, stacks, chosen, weights, x)
    for count in (1, 9, 33):
        for begin in (0, 100, 224):
            part = slice(begin, begin + count)
            alone = expert_mlp(x[part], stacks, chosen[part], weights[part], x[part])
            assert alone.equal(together[part])


def test_replay_is_eager_when_the_routing_changes(
    stacks: tuple[torch.Tensor, torch.Tensor],
) -> None:
    x, chosen, weights = (one.clone() for one in routed(33))
    expert_mlp(x, stacks, chosen, weights, x)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = expert_mlp(x, stacks, chosen, weights, x)
    for seed in range(5):
        torch.manual_seed(seed)
        chosen.copy_(torch.randn(33, EXPERTS, device="cuda").topk(ACTIVE).indices)
        if seed == 4:
            chosen[:] = chosen[0].clone()
        graph.replay()
        assert out.equal(expert_mlp(x, stacks, chosen, weights, x))
