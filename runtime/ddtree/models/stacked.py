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
from ddtree.ops.experts.packed import PER_WORD, Packed, regrouped, stays_packed


def stacked(weights: Share, experts: Sequence[tuple[str, ...]], like: torch.Tensor) -> Stack:
    """[experts, out, in]; `experts` are the tensors of each whose rows are put together.

    Floats are of the dtype of `like`, all is on its device. Raises ModelError.
    """
    if uses_kernel(like):
        first = [weights.read_int4(name) for name in experts[0]]
        known = [part for part in first if part is not None and stays_packed(*part)]
        if len(known) == len(first):
            return _packed(weights, experts, known, like.device)
    whole: torch.Tensor | None = None
    for index, names in enumerate(experts):
        rows = take(weights, names, like)
        whole = rows.new_empty(len(experts), *rows.shape) if whole is None else whole
        whole[index] = rows
    assert whole is not None
    return whole


def _packed(
    weights: Share, experts: Sequence[tuple[str, ...]], first: list[Int4], device: torch.device
) -> Packed:
    """`first` are the parts of the first expert, which are read already."""
    whole: Packed | None = None
    for index, names in enumerate(experts):
        parts = first if index == 0 else [weights.read_int4(name) for name in names]
        known = [part for part in parts if part is not None]
        if len(known) < len(names):
            raise ModelError(weights.path, f"holds {names[0]} as floats, other experts in INT4")
        words = torch.cat([regrouped(part.words.to(device)) for part in known])
        scale = torch.cat([part.scale.to(device) for part in known]).T  # [groups, out]
        if whole is None:
            whole = Packed(
                words.new_empty(len(experts), *words.shape),
                scale.new_empty(len(experts), *scale.shape),
                known[0].words.shape[1] * PER_WORD,
            )
        whole.words[index], whole.scale[index] = words, scale
    assert whole is not None
    return whole
