"""One step of DDTree, as the paper has it: draft, tree, verify, accept, commit.

Every mode is this step: `ar` verifies the root alone, `chain` a tree without branches, and a
tree that the host made (prompt lookup) takes the place of draft and tree.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddtree.config import Mode
from ddtree.core.batch import DraftTree, Rows, Verdict
from ddtree.ops.sample import Method
from ddtree.ops.tree_accept import tree_accept
from ddtree.speculate.commit import commit
from ddtree.speculate.draft import draft
from ddtree.speculate.seam import Models, Pools
from ddtree.speculate.tree import plant, root_only
from ddtree.speculate.verify import Judged, verify


@dataclass(frozen=True)
class StepShape:
    """What the host knows of a step: which tree, how deep, and the longest prefix."""

    mode: Mode
    budget: int  # nodes to verify besides the root; 0 for `ar`
    built: int  # nodes to build besides the root, at least the budget
    depth: int  # D; 0 for `ar`
    longest: int  # max(start)
    method: Method = "greedy"  # how the target chooses

    @property
    def drafted(self) -> int:
        """Positions to draft: a tree is no deeper than it has nodes."""
        return min(self.depth, self.built)


@dataclass(frozen=True)
class Stepped:
    built: DraftTree  # the whole tree
    tree: DraftTree  # the prefix of it that was verified
    judged: Judged
    verdict: Verdict


def step(
    rows: Rows, models: Models, pools: Pools, shape: StepShape, tree: DraftTree | None = None
) -> Stepped:
    """Commit 1 .. D + 1 tokens to every row."""
    built = _grow(rows, models, pools, shape) if tree is None else tree
    tree = built.prefix(shape.budget + 1) if shape.budget < shape.built else built
    judged = verify(rows, tree, models, pools, longest=shape.longest, method=shape.method)
    verdict = tree_accept(tree, judged.chosen, shape.depth)
    commit(rows, judged, verdict, models, pools)
    return Stepped(built=built, tree=tree, judged=judged, verdict=verdict)


def _grow(rows: Rows, models: Models, pools: Pools, shape: StepShape) -> DraftTree:
    if shape.mode == "ar":
        return root_only(rows.root)
    width = 1 if shape.mode == "chain" else shape.built
    marginals = draft(rows, models, pools, deep=shape.drafted, width=width, longest=shape.longest)
    return plant(rows, marginals, shape.mode, shape.built)
