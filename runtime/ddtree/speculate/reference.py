"""The oracle: tree, accept and commit with a heap, lists and dicts, one sequence at a time.

Slow and obvious. Everything that runs on a device is compared with this.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tree:
    """Nodes in the order they were popped; node 0 is the root."""

    tokens: list[int]
    parents: list[int]  # -1 for the root
    depths: list[int]

    def ancestors(self, node: int) -> set[int]:
        """The node itself and everything above it."""
        seen = set()
        while node >= 0:
            seen.add(node)
            node = self.parents[node]
        return seen


def grow(root: int, tokens: list[list[int]], logprobs: list[list[float]], budget: int) -> Tree:
    """DDTree, Algorithm 1: the `budget` most probable prefixes under independent marginals.

    tokens[d][r] is the token of rank r at depth d + 1. Scores add up in float32, from the root
    down. Ties go to the prefix that was pushed first; a sibling is pushed before a child.
    """
    score = [[np.float32(value) for value in row] for row in logprobs]
    tree = Tree([root], [-1], [0])
    heap: list[tuple[float, int, np.float32, int, int, int]] = []
    pushed = 0

    def push(before: np.float32, parent: int, depth: int, rank: int) -> None:
        nonlocal pushed
        if depth > len(score) or rank >= len(score[depth - 1]):
            return
        total = before + score[depth - 1][rank]
        if np.isneginf(total):
            return
        heapq.heappush(heap, (-float(total), pushed, before, parent, depth, rank))
        pushed += 1

    push(np.float32(0), 0, 1, 0)
    while heap and len(tree.tokens) <= budget:
        _, _, before, parent, depth, rank = heapq.heappop(heap)
        node = len(tree.tokens)
        tree.tokens.append(tokens[depth - 1][rank])
        tree.parents.append(parent)
        tree.depths.append(depth)
        push(before, parent, depth, rank + 1)
        push(before + score[depth - 1][rank], node, depth + 1, 0)
    return tree


def accept(tree: Tree, chosen: list[int]) -> tuple[list[int], list[int]]:
    """The accepted nodes from the root down, and the tokens they commit (bonus last)."""
    path = [0]
    while True:
        children = {
            tree.tokens[node]: node
            for node in range(len(tree.tokens))
            if tree.parents[node] == path[-1]
        }
        wanted = chosen[path[-1]]
        if wanted not in children:
            return path, [chosen[node] for node in path]
        path.append(children[wanted])


def commit(cache: list[object], start: int, path: list[int]) -> list[object]:
    """What the cache holds afterwards: the prefix, then the accepted nodes' entries in order."""
    return cache[:start] + [cache[start + node] for node in path]
