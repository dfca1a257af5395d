"""What crosses between the processes arrives as it was, however the bytes are cut."""

from __future__ import annotations

import pytest

from ddtree.core.sequence import NOTHING, Finish, Output, Request, Speculation, TokenLogprob
from ddtree.server import wire

OUTPUTS = [
    Output("plain", (5,), speculation=NOTHING),
    Output("tree", (5, 6), speculation=Speculation(3, 48, 4, (2, 1, 1))),
    Output("first", (7,), speculation=NOTHING, reused=32),
    Output("named", (8,), (TokenLogprob(8, -0.5, ((8, -0.5), (9, -1.0))),), speculation=NOTHING),
    Output("end", (), finish=Finish.LENGTH, speculation=Speculation(1, 4, 0, (0,))),
    Output("aborted", (), finish=Finish.ABORT),
    Output("fault", (), finish=Finish.ERROR, error="the model's logits are not finite"),
]
MESSAGES = [wire.Look(), wire.Ask((Request("a", (1, 2), 3),), ("b",)), wire.step(1.5, OUTPUTS)]


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.request_id)
def test_an_output_arrives_as_it_was(output: Output) -> None:
    (at, rows), *rest = wire.Frames().feed(wire.framed(wire.step(2.5, [output])))
    assert (at, [wire.output_of(row) for row in rows], rest) == (2.5, [output], [])


def test_a_row_that_brings_only_tokens_is_only_that() -> None:
    _, rows = wire.step(0.0, OUTPUTS[:2])
    assert [len(row) for row in rows] == [2, 7]


@pytest.mark.parametrize("size", [1, 3, 64, 1 << 20])
def test_messages_are_whole_wherever_the_bytes_are_cut(size: int) -> None:
    data = b"".join(map(wire.framed, MESSAGES))
    frames = wire.Frames()
    heard = [m for at in range(0, len(data), size) for m in frames.feed(data[at : at + size])]
    assert heard == MESSAGES
