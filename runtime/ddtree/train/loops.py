"""Loops: greedy text of a small model ends in repeating itself. A position is in a loop once the
16 tokens up to it have occurred before in the same sequence.
"""

from __future__ import annotations

import torch

GRAM = 16
BASE = 6364136223846793005  # any odd multiplier; products wrap at 64 bits
_TOP = pow(BASE, GRAM, 1 << 64)
LEAVING = _TOP - (1 << 64) if _TOP >= 1 << 63 else _TOP  # as a signed number


class LoopWatch:
    """Hashes of the last 16 tokens of every row, and all those before. Rows are [R, L] tokens."""

    def __init__(self, rows: int, longest: int, device: torch.device) -> None:
        self.hashes = torch.zeros(rows, longest, dtype=torch.int64, device=device)
        self.rolling = torch.zeros(rows, dtype=torch.int64, device=device)
        self.begin = torch.zeros(rows, dtype=torch.int64, device=device)

    def admit(self, rows: torch.Tensor, begin: torch.Tensor) -> None:
        """Rows whose answer begins at position `begin` [G]; prompts do not count."""
        self.rolling[rows] = 0
        self.begin[rows] = begin

    def add(self, tokens: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """The token at position `at` [R] of every row was written: which rows are in a loop [R]."""
        row = torch.arange(len(tokens), device=tokens.device)
        count = at - self.begin  # answer tokens before this one
        leaving = (tokens[row, (at - GRAM).clamp(min=0)] + 1) * LEAVING
        entering = tokens[row, at] + 1
        self.rolling = self.rolling * BASE + entering - leaving.where(count >= GRAM, 0)
        full = count >= GRAM - 1
        place = torch.arange(self.hashes.shape[1], device=tokens.device)
        first = self.begin + GRAM - 1  # the first position with a whole gram behind it
        known = (place >= first.unsqueeze(1)) & (place < at.unsqueeze(1))
        repeated = ((self.hashes == self.rolling.unsqueeze(1)) & known).any(1) & full
        self.hashes[row, at] = self.rolling
        return repeated


def in_loop(tokens: list[int], begin: int) -> list[bool]:
    """Which positions of one sequence lie in a loop; grams before position `begin` do not count."""
    seen: set[tuple[int, ...]] = set()
    flags = []
    for end in range(1, len(tokens) + 1):
        gram = tuple(tokens[end - GRAM : end]) if end - GRAM >= begin else None
        flags.append(gram is not None and gram in seen)
        if gram is not None:
            seen.add(gram)
    return flags
