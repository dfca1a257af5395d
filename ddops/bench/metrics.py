"""Traces and counters in, Metrics out: one small function a number, its formula in its docstring.

Pure. The reason behind each definition is in docs/numbers.md; `ddops bundle verify` calls
`derive` again on what a record holds and compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ddops.bench.counters import Speculation, speculation
from ddops.spec.record import Metrics, Spread, Trace


def derive(
    traces: Sequence[Trace],
    window_s: float,
    counters_before: Mapping[str, float],
    counters_after: Mapping[str, float],
) -> Metrics:
    whole = [trace for trace in traces if trace.error is None]
    counted = speculation(counters_before, counters_after)
    return Metrics(
        duration_s=window_s,
        completed=len(whole),
        failed=len(traces) - len(whole),
        prompt_tokens=sum(trace.prompt_tokens or 0 for trace in whole),
        completion_tokens=completion_tokens(whole),
        output_tok_s=output_tok_s(whole, window_s),
        ttft_s=spread(present(map(ttft_s, whole))),
        tpot_s=spread(present(map(tpot_s, whole))),
        itl_s=spread([gap for trace in whole for gap in itl_s(trace)]),
        e2e_s=spread(present(map(e2e_s, whole))),
        concurrency_achieved=concurrency_achieved(whole, window_s),
        accept=accept(counted),
        accepted_per_position=accepted_per_position(counted),
    )


def completion_tokens(traces: Iterable[Trace]) -> int:
    """Sum of `usage.completion_tokens` over the requests that ended well."""
    return sum(trace.completion_tokens or 0 for trace in traces)


def output_tok_s(traces: Iterable[Trace], window_s: float) -> float:
    """completion_tokens / window_s"""
    return completion_tokens(traces) / window_s if window_s > 0 else 0.0


def ttft_s(trace: Trace) -> float | None:
    """first token - sent"""
    return trace.first


def e2e_s(trace: Trace) -> float | None:
    """last token - sent"""
    return trace.last


def tpot_s(trace: Trace) -> float | None:
    """(last - first) / (tokens - 1); None below two tokens"""
    tokens = trace.completion_tokens or 0
    if trace.first is None or trace.last is None or tokens < 2:
        return None
    return (trace.last - trace.first) / (tokens - 1)


def itl_s(trace: Trace) -> list[float]:
    """A chunk of k tokens after a gap g gives k values g / k; the first chunk gives none"""
    gaps: list[float] = []
    for earlier, chunk in pairwise(trace.chunks):
        gaps += [(chunk.at - earlier.at) / chunk.tokens] * chunk.tokens
    return gaps


def concurrency_achieved(traces: Iterable[Trace], window_s: float) -> float:
    """Sum of e2e / window_s: how many requests were really in flight, on average"""
    return sum(present(map(e2e_s, traces))) / window_s if window_s > 0 else 0.0


def accept(counted: Speculation) -> float | None:
    """1 + d(accepted drafts) / d(verify steps); None without verify steps in the window"""
    if not counted.steps or counted.accepted is None:
        return None
    return 1 + counted.accepted / counted.steps


def accepted_per_position(counted: Speculation) -> tuple[float, ...] | None:
    """d(accepted at position i) / d(verify steps): the share of steps that got so deep"""
    if not counted.steps or not counted.per_position:
        return None
    return tuple(count / counted.steps for count in counted.per_position)


def spread(values: Sequence[float]) -> Spread | None:
    """Mean, sample deviation (n - 1) and percentiles, linear between order statistics"""
    if not values:
        return None
    ordered = sorted(values)
    mean = math.fsum(ordered) / len(ordered)
    squares = math.fsum((value - mean) ** 2 for value in ordered)
    return Spread(
        mean=mean,
        std=math.sqrt(squares / (len(ordered) - 1)) if len(ordered) > 1 else 0.0,
        min=ordered[0],
        p50=percentile(ordered, 50),
        p90=percentile(ordered, 90),
        p99=percentile(ordered, 99),
        max=ordered[-1],
        n=len(ordered),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value at rank (n - 1) * percent / 100 of sorted values, interpolated linearly"""
    rank = (len(ordered) - 1) * percent / 100
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)


def present(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
