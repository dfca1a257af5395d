"""How pieces of prompts lie in one forward, and all that it reads in one upload. No torch.

A line is a few tokens of one prompt: a row of the forward. Every layer writes the keys of all
lines before any token looks at them, so a prompt may be as many lines as it fills, side by side.
What a forward must know before is then little more than how many lines there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ddtree.core.sequence import Sampling

Words = npt.NDArray[np.int64]

WIDTH = 16  # tokens of a line on CUDA: Triton compiles anew for counts that 16 does not divide
STEPS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)  # lines of the captured forms
ALIGNED = 2  # words that every field begins at a multiple of: 16 bytes, as Triton asks


@dataclass(frozen=True)
class Piece:
    """A chunk as the device takes it: plain numbers, so that other ranks can be told."""

    tokens: list[int]
    begin: int  # position of the first
    pages: list[int]  # of the sequence
    sampling: Sampling
    ends: bool  # whether a token comes after it

    def lines(self, width: int) -> int:
        return -(-len(self.tokens) // width)


@dataclass(frozen=True, order=True)
class Form:
    """The sizes of a forward. Every smaller one fits in, and changes no bit there."""

    lines: int  # R
    prompts: int  # P
    pages: int  # of a prompt, at most
    width: int = WIDTH  # W, tokens of a line

    def holds(self, other: Form) -> bool:
        return (
            self.width == other.width
            and self.lines >= other.lines
            and self.prompts >= other.prompts
            and self.pages >= other.pages
        )


@dataclass(frozen=True)
class Field:
    """Where a tensor lies among the words of an upload."""

    begin: int
    words: int
    shape: tuple[int, ...]
    real: bool  # float32, two a word; else int64


def form_of(pieces: list[Piece], width: int, page_size: int) -> Form:
    """The smallest form that holds them."""
    pages = 0
    for piece in pieces:
        reached = piece.begin + piece.lines(width) * width  # the last line's padding included
        pages = max(pages, len(piece.pages), -(-reached // page_size))
    return Form(sum(piece.lines(width) for piece in pieces), len(pieces), pages, width)


def smallest(forms: Iterable[Form], needed: Form) -> Form | None:
    return min((form for form in forms if form.holds(needed)), default=None)


def captured_forms(chunk: int, rows: int, pages: int) -> list[Form]:
    """Those worth a graph where a step takes `chunk` tokens of at most `rows` prompts.

    Each prompt may leave a line unfilled. What has more lines than the last form runs eagerly.
    """
    most = min(-(-chunk // WIDTH) + min(rows, chunk), STEPS[-1])
    steps = [*[lines for lines in STEPS if lines < most], most]
    return [Form(lines, min(lines, rows), pages) for lines in steps]


def fields(form: Form) -> dict[str, Field]:
    """All that a forward reads, and where."""
    lines, prompts = form.lines, form.prompts
    whole = {
        "tokens": (lines, form.width),
        "start": (lines,),  # position of its first token
        "prompt": (lines,),  # whose it is
        "last": (prompts,),  # its last token, counted over all lines
        "position": (prompts,),  # of that one
        "seed": (prompts,),
        "top_k": (prompts,),
        "table": (prompts + 1, form.pages),  # pages; the last prompt is nobody, on page 0
    }
    parts = {"temperature": (prompts,), "top_p": (prompts,), "min_p": (prompts,)}
    found, begin = dict[str, Field](), 0
    for name, shape in {**whole, **parts}.items():
        size = prod(shape)
        words = size if name in whole else -(-size // 2)
        found[name] = Field(begin, words, shape, real=name in parts)
        begin += -(-words // ALIGNED) * ALIGNED
    return found


def pack(pieces: list[Piece], form: Form) -> Words:
    """The words of an upload. What no piece fills is a greedy prompt of token 0 on page 0."""
    where = fields(form)
    packed = np.zeros(max(f.begin + f.words for f in where.values()), np.int64)
    at = dict[str, npt.NDArray[Any]]()
    for name, field in where.items():
        words = packed[field.begin : field.begin + field.words]
        at[name] = words.view(np.float32 if field.real else np.int64)[: prod(field.shape)]
    table = at["table"].reshape(where["table"].shape)
    at["prompt"][:] = form.prompts
    line = 0
    for index, piece in enumerate(pieces):
        count, first, tokens = piece.lines(form.width), line * form.width, len(piece.tokens)
        at["tokens"][first : first + tokens] = piece.tokens
        at["start"][line : line + count] = piece.begin + form.width * np.arange(count)
        at["prompt"][line : line + count] = index
        at["last"][index] = first + tokens - 1
        at["position"][index] = piece.begin + tokens - 1
        table[index, : len(piece.pages)] = piece.pages
        for name in ("seed", "top_k", "temperature", "top_p", "min_p"):
            at[name][index] = getattr(piece.sampling, name)
        line += count
    return packed
