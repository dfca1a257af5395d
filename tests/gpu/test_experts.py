"""A mixture on the device: a token's bits alone and among others, eager and replayed."""

from __future__ import annotations

import pytest
import torch

from ddtree.config import Experts, SigmoidRouting
from ddtree.ops.experts import expert_mlp, reference
from ddtree.ops.experts.packed import Packed
from ddtree.ops.linear import linear
from ddtree.ops.routing import route
from ddtree.stepbench.clock import copy_bandwidth, median_seconds

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


KIMI = Experts(384, 8, 2048, normalised=True, sigmoid=SigmoidRouting(1, 1, scaling=2.827))
WIDE, NARROW = 7168, 256  # Kimi-K2.6, an eighth of each expert


def int4(outputs: int, features: int) -> Packed:
    tiles = (KIMI.count, outputs // 16, features // 256, 16)
    words = torch.randint(-(2**15), 2**15, (*tiles, 64), dtype=torch.int16, device="cuda")
    scale = (torch.rand(*tiles, 8, device="cuda") + 0.5) / features**0.5 / 5
    return Packed(words, scale.bfloat16(), outputs, features)


@pytest.fixture(scope="module")
def packed() -> tuple[Packed, Packed]:
    torch.manual_seed(1)
    return int4(2 * NARROW, WIDE), int4(WIDE, NARROW)


def tokens_of(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(count)
    x = torch.randn(count, WIDE, device="cuda").bfloat16()
    gate = torch.randn(KIMI.count, WIDE, device="cuda").bfloat16() / 84
    chosen, weights = route(linear(x, gate, dtype=torch.float32), KIMI, torch.zeros(384).cuda())
    return x, chosen, weights


@pytest.mark.parametrize("tokens", [1, 9, 33, 65, 300, 1200])
def test_int4_is_the_reference_to_a_rounding(tokens: int, packed: tuple[Packed, Packed]) -> None:
    x, chosen, weights = tokens_of(tokens)
    found = expert_mlp(x, packed, chosen, weights, x).float()
    wanted = reference.expert_mlp(x.float(), *packed, chosen, weights) + x.float()
    assert (found - wanted).norm() < 0.01 * wanted.norm()


def test_an_int4_tokens_bits_do_not_depend_on_the_others(packed: tuple[Packed, Packed]) -> None:
    """600 tokens make tiles of 16 pairs, 9 and 33 of 8, one of one."""
    x, chosen, weights = tokens_of(600)
    inner, down = x[:, :NARROW].contiguous(), torch.randn(WIDE, NARROW, device="cuda").bfloat16()
    together = expert_mlp(x, packed, chosen, weights, x, (inner, down))
    for count in (1, 9, 33):
        for begin in (0, 100, 224):
            part = slice(begin, begin + count)
            alone_x, alone = x[part], (chosen[part], weights[part])
            beside = (alone_x, (inner[part], down))
            assert expert_mlp(alone_x, packed, *alone, *beside).equal(together[part])


@pytest.mark.parametrize("tokens", [1, 9, 33, 300])
def test_what_every_token_goes_to_is_added(tokens: int, packed: tuple[Packed, Packed]) -> None:
    x, chosen, weights = tokens_of(tokens)
    inner = x[:, :NARROW].contiguous()
    down = torch.randn(WIDE, NARROW, device="cuda").bfloat16() / 8
    found = expert_mlp(x, packed, chosen, weights, x, (inner, down)).float()
    wanted = reference.expert_mlp(x.float(), *packed, chosen, weights) + x.float()
    wanted += inner.float() @ down.float().T
    assert (found - wanted).norm() < 0.01 * wanted.norm()


def test_a_token_is_routed_alike_whatever_is_beside_it() -> None:
    torch.manual_seed(2)
    x = torch.randn(65, WIDE, device="cuda").bfloat16()
    gate = torch.randn(KIMI.count, WIDE, device="cuda").bfloat16() / 84
    correction = torch.randn(384, device="cuda") / 10
    logits = linear(x, gate, dtype=torch.float32)
    chosen, weights = route(logits, KIMI, correction)
    wanted = route(logits.cpu(), KIMI, correction.cpu())
    assert chosen.cpu().equal(wanted[0])
    torch.testing.assert_close(weights.cpu(), wanted[1])
    for at in (0, 33, 64):
        one = linear(x[at : at + 1], gate, dtype=torch.float32)
        alone = route(one, KIMI, correction)
        assert alone[0][0].equal(chosen[at]) and alone[1][0].equal(weights[at])


@pytest.mark.parametrize("tokens", [1, 9, 33, 65])
def test_int4_replays_when_the_routing_changes(tokens: int, packed: tuple[Packed, Packed]) -> None:
    x, chosen, weights = (one.clone() for one in tokens_of(tokens))
    expert_mlp(x, packed, chosen, weights, x)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = expert_mlp(x, packed, chosen, weights, x)
    for seed in range(5):
        torch.manual_seed(seed)
        chosen.copy_(torch.randn(tokens, KIMI.count, device="cuda").topk(8).indices)
        graph.replay()
        assert out.equal(expert_mlp(x, packed, chosen, weights, x))


@pytest.mark.parametrize(("tokens", "share"), [(9, 0.5), (33, 0.6)])
def test_int4_reads_at_a_copys_pace(
    tokens: int, share: float, packed: tuple[Packed, Packed]
) -> None:
    """Beside a copy measured just before, in the best of three tries: a neighbour slows both.

    Routings in turn, so that no cache holds a visit's experts; bytes are those of touched ones.
    """
    stacks = [packed, (int4(2 * NARROW, WIDE), int4(WIDE, NARROW))]
    visits = []
    for visit in range(8):
        torch.manual_seed(visit)
        weights, chosen = torch.randn(tokens, KIMI.count, device="cuda").softmax(-1).topk(8)
        visits.append((stacks[visit % 2], chosen, weights))
    x = torch.randn(tokens, WIDE, device="cuda").bfloat16()

    def work() -> None:
        for stack, chosen, weights in visits:
            expert_mlp(x, stack, chosen, weights, x)

    one = sum(part.words[0].nbytes + part.scale[0].nbytes for part in packed)
    moved = one * sum(len(set(chosen.flatten().tolist())) for _, chosen, _ in visits)
    device = torch.device("cuda")
    found = []
    for _ in range(3):
        copied = copy_bandwidth(device)
        found.append(moved / median_seconds(work, device, repeats=15) / copied)
    assert max(found) > share, found
