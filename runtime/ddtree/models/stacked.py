"""One matrix of all experts of a layer, filled one at a time; where kernels read it, INT4 stays so.

In torch on a CPU unpacking costs more than the product: 8 experts of 2048 x 768 for one token took
3.5 ms as bfloat16 and 1.3 s as INT4 (two cores, busy with other work).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ddtree.models.errors import ModelError
from ddtree.models.split import Share
from ddtree.models.weights import Int4, take
from ddtree.ops.backend import uses_kernel
from ddtree.ops.experts import Stack
from ddtree.ops.experts.packed import Packed, regrouped, stays_packed

# Experts that are regrouped in one go: some thirty launches, in memory of eight times their words.
AT_ONCE = 4


def stacked(weights: Share, experts: Sequence[tuple[str, ...]], like: torch.Tensor) -> Stack:
    """[experts, out, in]; `experts` are the tensors of each whose rows are put together.

    Floats are of the dtype of `like`, all is on its device. Raises ModelError.
    """
    if uses_kernel(like):
        first = [weights.read_int4(name) for name in experts[0]]
        if all(part is not None and stays_packed(*part) for part in first):
            return _packed(weights, experts, like.device)
    whole: torch.Tensor | None = None
    for index, names in enumerate(experts):
        rows = take(weights, names, like)
        whole = rows.new_empty(len(experts), *rows.shape) if whole is None else whole
        whole[index] = rows
    assert whole is not None
    return whole


def _packed(weights: Share, experts: Sequence[tuple[str, ...]], device: torch.device) -> Packed:
    whole: Packed | None = None
    for begin in range(0, len(experts), AT_ONCE):
        some = experts[begin : begin + AT_ONCE]
        parts = [_int4(weights, name) for names in some for name in names]
        words = torch.cat([part.words.to(device) for part in parts])  # [experts x out, in / 8]
        scale = torch.cat([part.scale.to(device) for part in parts])
        few = regrouped(*(one.view(len(some), -1, one.shape[1]) for one in (words, scale)))
        if whole is None:
            words, scale = (
                one.new_empty(len(experts), *one.shape[1:]) for one in (few.words, few.scale)
            )
            whole = Packed(words, scale, few.outputs, few.features)
        whole.words[begin : begin + len(some)] = few.words
        whole.scale[begin : begin + len(some)] = few.scale
    assert whole is not None
    return whole


def _int4(weights: Share, name: str) -> Int4:
    part = weights.read_int4(name)
    if part is None:
        raise ModelError(weights.path, f"holds {name} as floats, other experts in INT4")
    return part
