"""The target's choice after each node: argmax, or a draw that a seed and a position decide."""

from ddtree.ops.sample.reference import sample, uniform

__all__ = ["sample", "uniform"]
