"""Tree attention over pages equals plain attention over the gathered sequence."""

import pytest
import torch

from ddtree.ops.bitmask import pack, unpack, words_for
from ddtree.ops.tree_attention import plan_attention, tree_attention, write_kv

PAGE = 4


def _scene(
    starts: list[int], new: int, poison: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Poisoned keys and values [slots, 2, 8], and shuffled page tables for these rows."""
    generator = torch.Generator().manual_seed(new)
    wide = -(-(max(starts) + new) // PAGE)
    pages = torch.randperm(len(starts) * wide, generator=generator) + 1
    slots = (len(starts) * wide + 1) * PAGE
    cache = torch.full((2, slots, 2, 8), poison)
    return cache[0], cache[1], pages.reshape(len(starts), wide)


@pytest.mark.parametrize("new", [1, 2, 9, 17, 63, 64, 65], ids=lambda n: f"N{n}")
@pytest.mark.parametrize("starts", [[0], [1, 7], [30, 0, 13]], ids=str)
def test_a_tree_attends_to_prefix_and_ancestors_only(starts: list[int], new: int) -> None:
    generator = torch.Generator().manual_seed(7)
    keys, values, table = _scene(starts, new, float("nan"))
    start = torch.tensor(starts)
    history = torch.randn(2, len(starts), max(starts) + 1, 2, 8, generator=generator)
    for row, length in enumerate(starts):
        for position in range(length):
            slot = int(table[row, position // PAGE]) * PAGE + position % PAGE
            keys[slot], values[slot] = history[0, row, position], history[1, row, position]

    parents = [-1] + [int(torch.randint(0, i, (), generator=generator)) for i in range(1, new)]
    visible = torch.eye(new, dtype=torch.bool)
    for node in range(1, new):
        visible[node] |= visible[parents[node]]
    words = pack(visible).expand(len(starts), -1, -1)
    q = torch.randn(len(starts), new, 6, 8, generator=generator)
    k, v = torch.randn(2, len(starts), new, 2, 8, generator=generator)
    plan = plan_attention(start, table, new, words, PAGE, max(starts) + new)
    write_kv(keys, values, k, v, plan)
    out = tree_attention(q, keys, values, plan)

    for row, length in enumerate(starts):
        for node in range(new):
            own = visible[node].nonzero().flatten()
            all_k = torch.cat([history[0, row, :length], k[row, own]]).double()
            all_v = torch.cat([history[1, row, :length], v[row, own]]).double()
            for head in range(6):
                scores = all_k[:, head // 3] @ q[row, node, head].double() / 8**0.5
                expected = torch.softmax(scores, 0) @ all_v[:, head // 3]
                torch.testing.assert_close(
                    out[row, node, head].double(), expected, atol=2e-6, rtol=1e-5
                )


def test_a_page_table_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="need more than 1 pages"):
        plan_attention(torch.tensor([3]), torch.tensor([[1]]), 2, "causal", PAGE, 5)


def test_words_of_another_tree_are_refused() -> None:
    words = pack(torch.eye(3, dtype=torch.bool)).unsqueeze(0)
    with pytest.raises(ValueError, match="do not fit"):
        plan_attention(torch.tensor([0]), torch.tensor([[1]]), 4, words, PAGE, 4)


@pytest.mark.parametrize("nodes", [1, 62, 63, 64, 126, 127, 257])
def test_bitmask_words_round_trip_without_a_sign_bit(nodes: int) -> None:
    visible = torch.rand(3, nodes, nodes, generator=torch.manual_seed(nodes)) < 0.5
    words = pack(visible)
    assert words.shape == (3, nodes, words_for(nodes))
    assert (words >= 0).all()
    assert torch.equal(unpack(words, nodes), visible)
