"""Counters of an engine since it started. Plain integers; the server exposes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    prefills: int  # steps that took in prompts
    steps: Mapping[int, int]  # those that decoded, by budget; 0 is autoregressive
    speculation: Speculation
