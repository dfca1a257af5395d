"""Log-probabilities of committed tokens, from the logits the verify already made."""

from __future__ import annotations

import torch

from ddtree.core.sequence import TokenLogprob


def logprobs_at(logits: torch.Tensor, tokens: list[int], best: int) -> tuple[TokenLogprob, ...]:
    """For each of logits [T, V]: the chosen token's log-probability and those of the `best` ones.

    Untempered: what the model itself says, as the field reports it.
    """
    logprobs = torch.log_softmax(logits.float(), -1)
    top = logprobs.topk(best, -1) if best else None
    result = []
    for i, token in enumerate(tokens):
        ranked: tuple[tuple[int, float], ...] = ()
        if top is not None:
            ranked = tuple(zip(top.indices[i].tolist(), top.values[i].tolist(), strict=True))
        result.append(TokenLogprob(token, float(logprobs[i, token]), ranked))
    return tuple(result)
