"""Counters of an engine since it started. Plain integers; the server exposes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ddtree.core.sequence import Speculation


@dataclass(frozen=True)
class EngineStats:
    running: int
    waiting: int
    kv_used: float  # 0..1, share of the pages
    prompt_tokens: int
    reused_tokens: int  # of the prompts, found in the cache
    generation_tokens: int
    preemptions: int
    speculation: Speculation


def counted(before: Speculation, *, drafted: int, accepted: int) -> Speculation:
    """One more verify step whose path reached depth `accepted`."""
    reached = list(before.accepted_per_position)
    reached.extend([0] * (accepted - len(reached)))
    for depth in range(accepted):
        reached[depth] += 1
    return replace(
        before,
        verify_steps=before.verify_steps + 1,
        drafted=before.drafted + drafted,
        accepted=before.accepted + accepted,
        accepted_per_position=tuple(reached),
    )
