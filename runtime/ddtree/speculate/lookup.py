"""Prompt lookup: a drafter without weights. What followed the last tokens before may follow again.

Continuations of the longest matching n-grams, latest first, are merged into one tree, so that
different continuations of the same words become branches. Host side, ints only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DEPTH = 15  # deepest continuation, tokens; as deep as a DFlash block of 16
LONGEST_NGRAM = 4


@dataclass
class Lookup:
    """Where each n-gram of one sequence ended. Grows with the sequence."""

    seen: int = 0
    ends: dict[tuple[int, ...], list[int]] = field(default_factory=dict)

    def extend(self, tokens: list[int]) -> None:
        """Index the n-grams that end before the last token of `tokens`."""
        for end in range(max(self.seen, 1), len(tokens)):
            for size in range(1, min(LONGEST_NGRAM, end) + 1):
                self.ends.setdefault(tuple(tokens[end - size : end]), []).append(end)
        self.seen = max(self.seen, len(tokens))

    def matches(self, tokens: list[int]) -> list[int]:
        """Positions where a continuation begins: longest n-gram first, then latest first."""
        found: dict[int, None] = {}
        for size in range(min(LONGEST_NGRAM, len(tokens)), 0, -1):
            for end in reversed(self.ends.get(tuple(tokens[-size:]), [])):
                found.setdefault(end)
        return list(found)


@dataclass(frozen=True)
class HostTree:
    """A tree as lists; node 0 is the root, parents come before children."""

    tokens: list[int]
    parents: list[int]
    depths: list[int]


def propose(lookup: Lookup, tokens: list[int], budget: int, *, branches: bool) -> HostTree:
    """A tree of at most `budget` nodes under the last of `tokens`; one path if not `branches`."""
    lookup.extend(tokens)
    tree = HostTree([tokens[-1]], [-1], [0])
    children: dict[tuple[int, int], int] = {}
    matches = lookup.matches(tokens)
    for begin in matches if branches else matches[:1]:
        node = 0
        for depth, token in enumerate(tokens[begin : begin + DEPTH], start=1):
            below = children.get((node, token))
            if below is None:
                if len(tree.tokens) > budget:
                    return tree
                below = len(tree.tokens)
                children[node, token] = below
                tree.tokens.append(token)
                tree.parents.append(node)
                tree.depths.append(depth)
            node = below
    return tree
