"""A request ends at its stop token, at max_tokens, or at the end of the context."""

import pytest

from ddtree.core.sequence import Finish, Request, Sequence
from ddtree.engine.ending import Kept, keep


@pytest.mark.parametrize(
    ("committed", "kept"),
    [
        ([5, 6], Kept([5, 6], None)),
        ([5, 2, 6], Kept([5, 2], Finish.STOP)),
        ([5, 6, 7, 8, 9], Kept([5, 6, 7, 8], Finish.LENGTH)),
        ([5, 6, 7, 2, 9], Kept([5, 6, 7, 2], Finish.STOP)),
        ([5, 6, 7, 8, 2], Kept([5, 6, 7, 8], Finish.LENGTH)),
    ],
)
def test_what_a_step_commits_is_cut_where_the_request_ends(
    committed: list[int], kept: Kept
) -> None:
    request = Request("r", (1, 1), max_tokens=4, stop_token_ids=frozenset({2}))
    assert keep(Sequence(request, [1, 1], end=6), committed) == kept


def test_an_answer_goes_on_where_the_last_step_left_it() -> None:
    sequence = Sequence(Request("r", (1, 1), max_tokens=50), [1, 1, 3], end=5)
    assert keep(sequence, [4, 5, 6]) == Kept([4, 5], Finish.LENGTH)
