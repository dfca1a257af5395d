"""Prefill: chunks of prompts into the caches, and the first token of those that end.

Started, not waited for: `First.read` is the host's only read of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ddtree.core.batch import Rows
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
    rows = _rows(pieces, device, -(-longest // pools.page_size))
    padded = upload([p.tokens + [0] * (new - len(p.tokens)) for p in pieces], device)  # [B, N]
    positions = rows.start.unsqueeze(1) + torch.arange(new, device=device)
    # padding lies behind the chunk, in positions that the next step writes, or on page 0
    plan = plan_attention(rows.start, rows.page_table, new, "causal", pools.page_size, longest)
    out = models.target.forward(padded, positions, pools.target, plan, models.feature_layers)
    if models.drafter is not None and pools.drafter is not None:
        assert out.features is not None
        models.drafter.write_context(out.features, positions, plan.write_slots, pools.drafter)
    ended = [i for i, piece in enumerate(pieces) if piece.ends]
    if not ended:
        return None
    ends = upload([ended, [len(pieces[i].tokens) - 1 for i in ended]], device)
    logits = models.target.raw_logits(out.hidden[ends[0], ends[1]].unsqueeze(1))  # [E, 1, V]
    method = method_of([pieces[i].sampling for i in ended])
    return Written(_choose(logits, method, rows, ends), logits)


def _choose(logits: torch.Tensor, method: Method, rows: Rows, ends: torch.Tensor) -> torch.Tensor:
    """The token after each prompt, and whether its logits are finite: [E, 2] int64."""
    which, last = ends
    chosen = sample(
        logits,
        rows.temperature[which],
        rows.top_p[which],
        Chance(rows.seed[which], (rows.start[which] + last).unsqueeze(1)),
        method=method,
        narrowing=Narrowing(rows.top_k[which], rows.min_p[which]),
    )
    return torch.cat([chosen.tokens, chosen.peak.isfinite()], 1)


def _rows(pieces: list[Piece], device: torch.device, pages: int) -> Rows:
    """The pieces with page tables at least `pages` wide. A prompt drafts nothing."""
    said = [piece.sampling for piece in pieces]
    wide = max(pages, *(len(piece.pages) for piece in pieces))
    start, root, seed, top_k, limit = upload(
        [
            [piece.begin for piece in pieces],
            [piece.tokens[-1] for piece in pieces],
            [one.seed for one in said],
            [one.top_k for one in said],
            [0] * len(said),
        ],
        device,
    )
    temperature, top_p, min_p, branch = upload(
        [
            [float(one.temperature) for one in said],
            [float(one.top_p) for one in said],
            [float(one.min_p) for one in said],
            [0.0] * len(said),
        ],
        device,
    )
    return Rows(
        start=start,
        root=root,
        page_table=upload([p.pages + [0] * (wide - len(p.pages)) for p in pieces], device),
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        seed=seed,
        limit=limit,
        branch=branch,
    )


def method_of(sampled: list[Sampling]) -> Method:
    """The cheapest way to sample that serves all of them."""
    hot = [one for one in sampled if one.temperature > 0]
    if not hot:
        return "greedy"
    narrow = any(one.top_p < 1 or one.top_k or one.min_p for one in hot)
    return "nucleus" if narrow else "full"
