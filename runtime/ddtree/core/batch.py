"""The nouns of the device side: tensors with their shapes and who sets them.

B rows, N = budget + 1 nodes (node 0 is the root), D depth of the draft, V vocabulary,
F = len(target_layer_ids) * hidden. Shapes are fixed by the configuration; the tree is data.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rows:
    """The sequences of one step, as the device sees them. Set by the runner."""

    start: torch.Tensor  # [B] int64, cached positions = position of the root
    root: torch.Tensor  # [B] int64, the last committed token
    page_table: torch.Tensor  # [B, P] int64, page of each page_size positions
    temperature: torch.Tensor  # [B] float32, 0 is greedy
    top_p: torch.Tensor  # [B] float32
    top_k: torch.Tensor  # [B] int64, 0: all
    min_p: torch.Tensor  # [B] float32
    seed: torch.Tensor  # [B] int64
    limit: torch.Tensor  # [B] int64, nodes besides the root that may be accepted
    branch: torch.Tensor  # [B] float32, what a branch is worth: 0, or so little that none grows


@dataclass(frozen=True)
class Marginals:
    """What the drafter thinks of each next position, independently. Set by draft."""

    tokens: torch.Tensor  # [B, D, K] int64, most probable first
    logprobs: torch.Tensor  # [B, D, K] float32, over the full vocabulary


@dataclass(frozen=True)
class DraftTree:
    """The nodes to verify, parents before children. Set by tree.

    Unused nodes (fewer candidates than budget) have depth -1 and parent 0; they attend to
    themselves only and can never be accepted.
    """

    tokens: torch.Tensor  # [B, N] int64, [:, 0] the root
    parents: torch.Tensor  # [B, N] int64, [:, 0] = -1
    depths: torch.Tensor  # [B, N] int64, [:, 0] = 0
    ancestors: torch.Tensor  # [B, N, W] int64 words, bit j % 63 of word j // 63: j is visible
    scores: torch.Tensor | None = None  # [B, N] float32, log-probability of the path to the node

    def prefix(self, nodes: int) -> DraftTree:
        """The tree of budget nodes - 1: best-first order makes it the first `nodes` nodes."""
        return DraftTree(
            tokens=self.tokens[:, :nodes],
            parents=self.parents[:, :nodes],
            depths=self.depths[:, :nodes],
            ancestors=self.ancestors[:, :nodes, : -(-nodes // 63)],
            scores=None if self.scores is None else self.scores[:, :nodes],
        )


@dataclass(frozen=True)
class Verdict:
    """Which nodes the target agrees with. Set by accept."""

    path: torch.Tensor  # [B, D + 1] int64, accepted nodes from the root down, then repeats
    length: torch.Tensor  # [B] int64, nodes on the path, root included: 1..D + 1
    tokens: torch.Tensor  # [B, D + 1] int64, committed tokens; [length - 1] is the bonus
