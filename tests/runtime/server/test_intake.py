"""From a body to engine requests: seeds and limits."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ddtree.server.intake import Ask, choice_seed, completion
from ddtree.server.protocol import CompletionBody
from tests.runtime.server.apart import loaded
from tests.runtime.server.double import Double

seeds = st.integers(-(2**63), 2**63 - 1)


@given(seeds)
def test_the_seeds_of_choices_are_distinct_and_fit_the_device(seed: int) -> None:
    made = [choice_seed(seed, choice) for choice in range(128)]
    assert len(set(made)) == 128
    assert all(0 <= one < 2**63 for one in made)


@given(st.integers(0, 2**63 - 1))
def test_the_first_choice_has_the_seed_that_was_asked_for(seed: int) -> None:
    assert choice_seed(seed, 0) == seed


def test_neighbouring_seeds_share_no_choice() -> None:
    made = [choice_seed(seed, choice) for seed in range(100) for choice in range(16)]
    assert len(set(made)) == len(made)


def test_a_prompt_in_a_list_is_answered_as_it_is_alone() -> None:
    async def asked() -> tuple[Ask, Ask]:
        model = loaded(Double())
        return (
            completion(CompletionBody(model="m", prompt=["a", "b"], n=2, seed=5), model),
            completion(CompletionBody(model="m", prompt="b", n=2, seed=5), model),
        )

    both, alone = asyncio.run(asked())
    assert [request.sampling for request in both.requests[2:]] == [
        request.sampling for request in alone.requests
    ]
