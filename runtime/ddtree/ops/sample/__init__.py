"""The target's choice after each node: argmax, or a draw that a seed and a position decide."""

from ddtree.ops.sample.reference import Method, sample, uniform

__all__ = ["Method", "sample", "uniform"]
