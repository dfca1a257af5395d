"""Prefill: chunks of prompts into the caches, and the first token of those that end.

Started, not waited for: `First.read` is the host's only read of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ddtree.core.sequence import Request, Sampling, Sequence, TokenLogprob
from ddtree.engine.logprobs import logprobs_at
from ddtree.engine.others import NOBODY, Others
from ddtree.engine.scheduler import Chunk
from ddtree.engine.upload import Download, download, upload
from ddtree.ops.sample import Chance, Method, Narrowing, sample
from ddtree.ops.tree_attention import plan_attention
from ddtree.speculate.seam import Models, Pools

PADDED = 16
WARMED = (16, 32, 64, 128, 256)  # a length for each tile of the products, and for split attention
TIMED = 5  # prefills
ALIGNED = 4  # numbers that every row of an upload is a multiple of: 16 bytes, as Triton asks


class Committed(NamedTuple):
    """What one step brought for one sequence."""

    tokens: list[int]
    logprobs: tuple[TokenLogprob, ...] | None
    drafted: int  # nodes besides the root
    healthy: bool  # the target's logits were finite


@dataclass(frozen=True)
class Piece:
    """A chunk as the device takes it: plain numbers, so that other ranks can be told."""

    tokens: list[int]
    begin: int  # position of the first
    pages: list[int]  # of the sequence
    sampling: Sampling
    ends: bool  # whether a token comes after it


@dataclass(frozen=True)
class Written:
    """What comes after the pieces that end, E of them. Set by the device."""

    chosen: torch.Tensor  # [E, 2] int64: the token, and whether the logits are finite
    logits: torch.Tensor  # [E, 1, V]


@dataclass(frozen=True)
class First:
    """The tokens after prompts that are cached to their end, on their way to the host."""

    sequences: list[Sequence]
    numbers: Download  # [E, 2] int64: the token, and whether the logits were finite
    logits: torch.Tensor  # [E, 1, V]

    def read(self) -> list[tuple[Sequence, Committed]]:
        found = []
        for at, (token, healthy) in enumerate(self.numbers.read().tolist()):
            sequence = self.sequences[at]
            wanted = sequence.request.logprobs
            logprobs = None if wanted is None else logprobs_at(self.logits[at], [token], wanted)
            found.append((sequence, Committed([token], logprobs, 0, bool(healthy))))
        return found


def warm(models: Models, pools: Pools, most: int) -> None:
    """Compile the kernels of a prefill of up to `most` tokens, on rows that own no page.

    Else the first prompts of each length would wait for a compiler, some seconds each.
    """
    for count in sorted({min(most, length) for length in (*WARMED, most)}):
        for batch in (1, 2):
            _rehearse(count, batch, models, pools)


def fixed_seconds(models: Models, pools: Pools) -> float:
    """What any prefill costs, however little it is: the smallest one, launches included.

    None on a CPU: prompts are prefilled one by one there, and cost their tokens.
    """
    if models.target.device.type != "cuda":
        return 0.0
    seconds = []
    for _ in range(TIMED):  # the first may compile
        begun = time.perf_counter()
        _rehearse(PADDED, 1, models, pools)
        seconds.append(time.perf_counter() - begun)
    return sorted(seconds)[TIMED // 2]


def _rehearse(count: int, batch: int, models: Models, pools: Pools) -> None:
    """Prefill prompts of `count` tokens that own no page, and wait for it."""
    tokens = [0] * count
    request = Request("warm", tuple(tokens), max_tokens=1)
    rows = [Sequence(request, list(tokens), end=count + 1) for _ in range(batch)]
    first = prefill([Chunk(row, 0, count) for row in rows], models, pools)
    assert first is not None, "a whole prompt gives a token"
    first.read()


def padded_length(new: int, device: torch.device) -> int:
    """What a forward of `new` tokens a row is padded to: on CUDA a multiple of 16.

    Triton compiles a kernel anew for counts that are 1, or a multiple of 16; so all are.
    """
    return -(-new // PADDED) * PADDED if device.type == "cuda" else new


def prefill(
    chunks: list[Chunk], models: Models, pools: Pools, others: Others = NOBODY
) -> First | None:
    """Start one forward over all chunks; None when no prompt ends in it."""
    pieces = [piece_of(chunk) for chunk in chunks]
    others.tell(pieces)
    written = write(pieces, models, pools)
    for chunk in chunks:
        chunk.sequence.cached = chunk.end
    if written is None:
        return None
    ended = [c.sequence for c, piece in zip(chunks, pieces, strict=True) if piece.ends]
    return First(ended, download(written.chosen), written.logits)


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


def write(pieces: list[Piece], models: Models, pools: Pools) -> Written | None:
    """One forward over all pieces into the caches; None when nothing comes after any of them."""
    device = models.target.device
    new = padded_length(max(len(piece.tokens) for piece in pieces), device)
    longest = max(piece.begin for piece in pieces) + new
    pages = max(-(-longest // pools.page_size), *(len(piece.pages) for piece in pieces))
    start = upload([piece.begin for piece in pieces], device)
    table = upload([p.pages + [0] * (pages - len(p.pages)) for p in pieces], device)
    padded = upload([p.tokens + [0] * (new - len(p.tokens)) for p in pieces], device)  # [B, N]
    positions = start.unsqueeze(1) + torch.arange(new, device=device)
    # padding lies behind the chunk, in positions that the next step writes, or on page 0
    plan = plan_attention(start, table, new, "causal", pools.page_size, longest)
    out = models.target.forward(padded, positions, pools.target, plan, models.feature_layers)
    if models.drafter is not None and pools.drafter is not None:
        assert out.features is not None
        models.drafter.write_context(out.features, positions, plan.write_slots, pools.drafter)
    ended = [i for i, piece in enumerate(pieces) if piece.ends]
    if not ended:
        return None
    ends = upload([ended, [len(pieces[i].tokens) - 1 for i in ended]], device)
    logits = models.target.raw_logits(out.hidden[ends[0], ends[1]].unsqueeze(1))  # [E, 1, V]
    return Written(_choose(logits, [pieces[i] for i in ended]), logits)


def _choose(logits: torch.Tensor, ended: list[Piece]) -> torch.Tensor:
    """The token after each prompt, and whether its logits are finite: [E, 2] int64."""
    said = [piece.sampling for piece in ended]
    count, device = len(said), logits.device
    beside = -count % ALIGNED
    last = [piece.begin + len(piece.tokens) - 1 for piece in ended]
    integers = [[one.seed for one in said], [one.top_k for one in said], last]
    floats = [
        [float(one.temperature) for one in said],
        [float(one.top_p) for one in said],
        [float(one.min_p) for one in said],
    ]
    seed, top_k, position = upload([row + [0] * beside for row in integers], device)[:, :count]
    temperature, top_p, min_p = upload([row + [0.0] * beside for row in floats], device)[:, :count]
    chosen = sample(
        logits,
        temperature,
        top_p,
        Chance(seed, position.unsqueeze(1)),
        method=method_of(said),
        narrowing=Narrowing(top_k, min_p),
    )
    return torch.cat([chosen.tokens, chosen.peak.isfinite()], 1)


def method_of(sampled: list[Sampling]) -> Method:
    """The cheapest way to sample that serves all of them."""
    hot = [one for one in sampled if one.temperature > 0]
    if not hot:
        return "greedy"
    narrow = any(one.top_p < 1 or one.top_k or one.min_p for one in hot)
    return "nucleus" if narrow else "full"
