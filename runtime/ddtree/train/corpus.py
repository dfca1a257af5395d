"""Sequences end to end in flat tensors, with what the target computed at each of their tokens.

Features are kept in 8-bit floats with a scale a layer: 2.9 kB a token instead of 5.8, so that a
round of 20 M tokens fits beside the target's cache. Of the target's distribution its most probable
tokens are kept: the step that writes a token has them anyway, and a lesson needs no product for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from ddtree.core.batch import Marginals

SPREAD = 4.0  # a layer's typical value is stored as this; 8-bit floats end at 448
LARGEST = 448.0
LIKELY = 8  # tokens kept of a distribution; they hold nearly all of a small greedy model's


@dataclass(frozen=True)
class Scales:
    """What to divide features [..., F] by before they are stored."""

    factor: torch.Tensor  # [F] float32

    @property
    def typical(self) -> torch.Tensor:
        """[F]: how large a feature of each layer is."""
        return self.factor * SPREAD

    def pack(self, features: torch.Tensor) -> torch.Tensor:
        """[..., F] uint8, the bits of 8-bit floats; what does not fit is cut off."""
        small = (features.float() / self.factor).clamp(-LARGEST, LARGEST)
        return small.to(torch.float8_e4m3fn).view(torch.uint8)

    def unpack(self, stored: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return (stored.view(torch.float8_e4m3fn).float() * self.factor).to(dtype)


def scales_of(features: torch.Tensor, hidden: int) -> Scales:
    """From the features [N, F] of some tokens: the median of each layer's row norms counts."""
    layers = features.float().view(len(features), -1, hidden)  # [N, layers, H]
    typical = layers.square().mean(-1).sqrt().median(0).values  # [layers]
    return Scales((typical / SPREAD).clamp(min=1e-6).repeat_interleave(hidden))


class Corpus:
    """Filled once, then read at random. Positions are of a sequence; `offset` is where it begins.

    The last token of a sequence was never fed to the target: its features and what is likely after
    it mean nothing. Nor does the latter at a prompt's tokens, which are no block's.
    """

    def __init__(self, capacity: int, scales: Scales, device: torch.device) -> None:
        width = len(scales.factor)
        self.scales = scales
        self.tokens = torch.zeros(capacity, dtype=torch.int64, device=device)
        self.features = torch.zeros(capacity, width, dtype=torch.uint8, device=device)
        self.likely = nothing_likely((capacity,), device)
        self.offsets: list[int] = []
        self.prompts: list[int] = []  # tokens of the prompt
        self.lengths: list[int] = []  # tokens in all
        self.size = 0
        self.full = False  # the next sequence did not fit

    def add(
        self, rows: torch.Tensor, prompts: list[int], lengths: list[int], staged: Staged
    ) -> None:
        """Copy these rows of the stage, as many as fit."""
        kept = []
        for i, length in enumerate(lengths):
            if self.size + length > len(self.tokens):
                self.full = True
                break
            kept.append(i)
            self.offsets.append(self.size)
            self.prompts.append(prompts[i])
            self.lengths.append(length)
            self.size += length
        if not kept:
            return
        sizes = torch.tensor([lengths[i] for i in kept], device=rows.device)
        row = rows[: len(kept)].repeat_interleave(sizes)  # [T]
        ends = sizes.cumsum(0)
        place = torch.arange(int(ends[-1]), device=rows.device)
        place = place - (ends - sizes).repeat_interleave(sizes)
        into = slice(self.offsets[-len(kept)], self.size)
        self.tokens[into] = staged.tokens[row, place]
        self.features[into] = staged.features[row, place]
        self.likely.tokens[into] = staged.likely.tokens[row, place]
        self.likely.logprobs[into] = staged.likely.logprobs[row, place]

    @cached_property
    def places(self) -> torch.Tensor:
        """[3, S] int64 on the host: offsets, prompts, lengths. Read once it is filled."""
        return torch.tensor([self.offsets, self.prompts, self.lengths])

    @cached_property
    def held_places(self) -> torch.Tensor:
        """The same where the corpus is."""
        return self.places.to(self.tokens.device)

    @cached_property
    def roots(self) -> torch.Tensor:
        """[S] int64: how many positions can be roots in the sequences up to each, itself included.

        The last token of a sequence has nothing behind it.
        """
        _, prompts, lengths = self.places
        each: torch.Tensor = (lengths - 1 - prompts).clamp(min=0)
        return each.cumsum(0)


@dataclass(frozen=True)
class Staged:
    """The sequences being written, one a row."""

    tokens: torch.Tensor  # [R, L] int64
    features: torch.Tensor  # [R, L, F] uint8
    likely: Marginals  # [R, L, LIKELY], after each token

    def keep(self, rows: torch.Tensor, places: torch.Tensor, likely: Marginals) -> None:
        """What is likely [G, LIKELY] after the tokens at these places."""
        self.likely.tokens[rows, places] = likely.tokens
        self.likely.logprobs[rows, places] = likely.logprobs


def nothing_likely(shape: tuple[int, ...], device: torch.device) -> Marginals:
    """Nothing is likely: token 0 with the probability 0."""
    return Marginals(
        torch.zeros(*shape, LIKELY, dtype=torch.int64, device=device),
        torch.full((*shape, LIKELY), -math.inf, device=device),
    )


@dataclass(frozen=True)
class Blocks:
    """What one step learns from: B sequences with A blocks each, of b positions."""

    features: torch.Tensor  # [B, L, F] of the positions 0 .. L - 1; past a root anything
    anchors: torch.Tensor  # [B, A] int64, position of each block's root, ascending
    tokens: torch.Tensor  # [B, A, b] int64, the root and what follows it
    known: torch.Tensor  # [B, A, b] bool, positions inside the sequence
    likely: Marginals  # [B, A, b, LIKELY], after those positions


@dataclass(frozen=True)
class Cut:
    """How blocks are taken."""

    block: int
    context: int  # L; at least the last root's position
    dtype: torch.dtype  # of the features


def blocks_at(corpus: Corpus, sequences: torch.Tensor, anchors: torch.Tensor, cut: Cut) -> Blocks:
    """The blocks at anchors [B, A] of these sequences [B], both where the corpus is."""
    device, last = corpus.tokens.device, corpus.size - 1
    offset, _, length = corpus.held_places[:, sequences].unsqueeze(2)  # [B, 1] each
    seen = (offset + torch.arange(cut.context, device=device)).clamp(max=last)  # [B, L]
    place = anchors.unsqueeze(2) + torch.arange(cut.block, device=device)  # [B, A, b]
    known = place < length.unsqueeze(2)
    index = (offset.unsqueeze(2) + place).clamp(max=last)
    return Blocks(
        features=corpus.scales.unpack(corpus.features[seen], cut.dtype),
        anchors=anchors,
        tokens=corpus.tokens[index],
        known=known,
        likely=Marginals(corpus.likely.tokens[index], corpus.likely.logprobs[index]),
    )


def draw(corpus: Corpus, seed: int, batch: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences [batch] and roots [batch, count] in each, ascending; every root is as likely."""
    generator = torch.Generator().manual_seed(seed)
    picked = torch.rand(batch, generator=generator, dtype=torch.float64) * corpus.roots[-1]
    sequences = torch.searchsorted(corpus.roots, picked.long(), right=True)
    _, prompts, lengths = corpus.places[:, sequences].unsqueeze(2)  # [B, 1] each
    spread = torch.rand(batch, count, generator=generator, dtype=torch.float64)
    anchors = prompts + (spread * (lengths - 1 - prompts)).long()
    return sequences, anchors.sort(1).values


def mixed_seed(*parts: int) -> int:
    """One seed from several numbers, unlike that of any neighbour."""
    mixed = 0
    for part in parts:
        mixed = (mixed * 0x9E3779B97F4A7C15 + part + 1) & ((1 << 63) - 1)
    return mixed
