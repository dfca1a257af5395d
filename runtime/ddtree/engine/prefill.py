"""Prefill: chunks of prompts into the caches, and the first token of those that end.

Started, not waited for: `First.read` is the host's only read of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ddtree.core.sequence import Request, Sequence, TokenLogprob
from ddtree.engine.lines import WIDTH, Piece
from ddtree.engine.logprobs import logprobs_at
from ddtree.engine.others import NOBODY, Others
from ddtree.engine.prefiller import Prefiller
from ddtree.engine.scheduler import Chunk
from ddtree.engine.upload import Download, download

TIMED = 5  # prefills


class Committed(NamedTuple):
    """What one step brought for one sequence."""

    tokens: list[int]
    logprobs: tuple[TokenLogprob, ...] | None
    drafted: int  # nodes besides the root
    healthy: bool  # the target's logits were finite


@dataclass(frozen=True)
class First:
    """The tokens after prompts that are cached to their end, on their way to the host."""

    sequences: dict[int, Sequence]  # by their place among the numbers
    numbers: Download  # [P, 2] int64: the token, and whether the logits were finite
    logits: dict[int, torch.Tensor]  # [1, V] of those that want log-probabilities

    def read(self) -> list[tuple[Sequence, Committed]]:
        found, numbers = [], self.numbers.read().tolist()
        for at, sequence in self.sequences.items():
            token, healthy = numbers[at]
            wanted = sequence.request.logprobs
            logprobs = None if wanted is None else logprobs_at(self.logits[at], [token], wanted)
            found.append((sequence, Committed([token], logprobs, 0, bool(healthy))))
        return found


def warm(prefiller: Prefiller, most: int) -> None:
    """Compile the kernels of prefills of up to `most` tokens that no graph is large enough for.

    Else the first of them would wait for a compiler, some seconds.
    """
    if -(-most // WIDTH) > prefiller.lines:
        for batch in (1, 2):
            _rehearse(most, batch, prefiller)


def fixed_seconds(prefiller: Prefiller) -> float:
    """What any prefill costs, however little it is: the smallest one, launches included.

    None on a CPU: prompts are prefilled one by one there, and cost their tokens.
    """
    if prefiller.device.type != "cuda":
        return 0.0
    seconds = []
    for _ in range(TIMED):  # the first may compile
        begun = time.perf_counter()
        _rehearse(WIDTH, 1, prefiller)
        seconds.append(time.perf_counter() - begun)
    return sorted(seconds)[TIMED // 2]


def _rehearse(count: int, batch: int, prefiller: Prefiller) -> None:
    """Prefill prompts of `count` tokens that own no page, and wait for it."""
    tokens = [0] * count
    request = Request("warm", tuple(tokens), max_tokens=1)
    rows = [Sequence(request, list(tokens), end=count + 1) for _ in range(batch)]
    first = prefill([Chunk(row, 0, count) for row in rows], prefiller)
    assert first is not None, "a whole prompt gives a token"
    first.read()


def prefill(chunks: list[Chunk], prefiller: Prefiller, others: Others = NOBODY) -> First | None:
    """Start one forward over all chunks; None when no prompt ends in it."""
    pieces = [piece_of(chunk) for chunk in chunks]
    others.tell(pieces)
    written = prefiller.write(pieces)
    for chunk in chunks:
        chunk.sequence.cached = chunk.end
    if written is None:
        return None
    ended = {at: chunks[at].sequence for at, piece in enumerate(pieces) if piece.ends}
    wanted = [at for at, sequence in ended.items() if sequence.request.logprobs is not None]
    # they are read behind the next step, which overwrites those of a graph
    logits = {at: written.logits[at].clone() for at in wanted}
    return First(ended, download(written.chosen), logits)


def piece_of(chunk: Chunk) -> Piece:
    """A token comes after the last of its sequence, be it a prompt or one that was preempted.

    Other chunks have more to come, or were preempted and know their root.
    """
    sequence = chunk.sequence
    return Piece(
        tokens=sequence.tokens[chunk.begin : chunk.end],
        begin=chunk.begin,
        pages=list(sequence.pages),
        sampling=sequence.request.sampling,
        ends=chunk.end == len(sequence.tokens),
    )
