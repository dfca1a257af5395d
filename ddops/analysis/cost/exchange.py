"""What the all-reduces of one step take, from latency and bandwidth of a link. Pure."""

from __future__ import annotations

from typing import Final

from ddops.spec.cost import Link, Target

REDUCTIONS: Final = 2  # of a layer whose tensors are spread: attention and MLP


def bytes_of(target: Target, tokens: int) -> int:
    """That every GPU has to have the sum of: a vector of 16-bit values a token."""
    return 2 * tokens * target.hidden


def seconds(target: Target, gpus: int, tokens: int, over: Link, *, late: bool) -> float:
    """`late`: with the worst latency that was reported of such a link. 0 for one GPU."""
    return REDUCTIONS * target.layers * one(target, gpus, tokens, over, late=late)


def one(target: Target, gpus: int, tokens: int, over: Link, *, late: bool) -> float:
    """Of these."""
    if gpus == 1:
        return 0.0
    moved = 2 * (gpus - 1) / gpus * bytes_of(target, tokens) / over.gb_s / 1e9
    return over.latency_us[late] / 1e6 + moved


def working(target: Target, tokens: int, over: Link) -> str:
    """How `seconds` comes about, to be read."""
    return (
        f"{REDUCTIONS * target.layers} x ({over.latency_us[0]:g} to {over.latency_us[1]:g} us "
        f"+ {bytes_of(target, tokens) / 1024:.0f} KiB at {over.gb_s:g} GB/s), {over.name}"
    )
