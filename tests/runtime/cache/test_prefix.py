"""A block's key stands for all tokens up to its end."""

from hypothesis import given
from hypothesis import strategies as st

from ddtree.cache.prefix import extend_keys

TOKENS = st.lists(st.integers(0, 3), max_size=24)


def keys_of(tokens: list[int], page_size: int = 4) -> list[bytes]:
    keys = list[bytes]()
    extend_keys(keys, tokens, page_size)
    return keys


@given(TOKENS, TOKENS)
def test_keys_agree_exactly_as_far_as_full_blocks_do(one: list[int], other: list[int]) -> None:
    alike = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        alike += 1
    mine, theirs = keys_of(one), keys_of(other)
    assert len(mine) == len(one) // 4
    assert [a == b for a, b in zip(mine, theirs, strict=False)] == [
        block < alike // 4 for block in range(min(len(mine), len(theirs)))
    ]


@given(TOKENS, st.integers(0, 24))
def test_keys_grow_with_the_tokens(tokens: list[int], at: int) -> None:
    keys = keys_of(tokens[:at])
    extend_keys(keys, tokens, 4)
    assert keys == keys_of(tokens)
