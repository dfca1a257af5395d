"""Traces and counters in, Metrics out: one small function a number, its formula in its docstring.

Pure. The reason behind each definition is in docs/numbers.md; `ddops bundle verify` calls
`derive` again on what a record holds and compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddops.bench.counters import Speculation, speculation
from ddops.spec.chunks import Chunks
from ddops.spec.matrix import Load, Slo
from ddops.spec.record import Metrics, Spread, Trace

_MOST_TOKENS = 1 << 32


@dataclass(frozen=True)
class Span:
    """The part of a window that is measured, seconds since it opened."""

    opens: float
    closes: float
    length_s: float

    def holds(self, at: float) -> bool:
        return self.opens <= at <= self.closes

    def overlap_s(self, opens: float, closes: float) -> float:
        return max(0.0, min(self.closes, closes) - max(self.opens, opens))


def derive(
    traces: Sequence[Trace],
    window_s: float,
    counters_before: Mapping[str, float],
    counters_after: Mapping[str, float],
    load: Load | None = None,
) -> Metrics:
    """`load`: what part of the window is measured, and what the SLO asks."""
    within = span(traces, window_s, load)
    sent = [trace for trace in traces if within.holds(trace.sent)]
    whole = [trace for trace in sent if trace.error is None]
    good = [trace for trace in traces if trace.error is None]
    counted = speculation(counters_before, counters_after)
    slo = load.slo if load else None
    return Metrics(
        duration_s=within.length_s,
        completed=len(whole),
        failed=len(sent) - len(whole),
        prompt_tokens=sum(trace.prompt_tokens or 0 for trace in whole),
        completion_tokens=completion_tokens(whole),
        output_tok_s=output_tok_s(good, within),
        ttft_s=spread(present(map(ttft_s, whole))),
        tpot_s=spread(present(map(tpot_s, whole))),
        itl_s=itl_s(whole),
        e2e_s=spread(present(map(e2e_s, whole))),
        concurrency_achieved=concurrency_achieved(good, within),
        accept=accept(counted),
        accepted_per_position=accepted_per_position(counted),
        requests_s=_per_second(len(whole), within),
        goodput_s=goodput_s(whole, within, slo) if slo else None,
        sent_late_s=spread(present(map(sent_late_s, sent))),
    )


def span(traces: Sequence[Trace], window_s: float, load: Load | None) -> Span:
    """The whole window, or what `settle_s` and `drain_s` leave of the time of sending.

    With either of them the span closes at the last request at the latest: after it the load falls.
    """
    if load is None or not (load.settle_s or load.drain_s):
        return Span(-math.inf, math.inf, window_s)
    closes = max((trace.sent for trace in traces), default=0.0) - load.drain_s
    return Span(load.settle_s, closes, max(0.0, closes - load.settle_s))


def completion_tokens(traces: Iterable[Trace]) -> int:
    """Sum of `usage.completion_tokens` over the requests that ended well."""
    return sum(trace.completion_tokens or 0 for trace in traces)


def output_tok_s(traces: Iterable[Trace], within: Span) -> float:
    """Tokens of answers that ended well, as far as they came in the span / its length"""
    tokens = sum(_tokens_in(trace, within) for trace in traces)
    return tokens / within.length_s if within.length_s > 0 else 0.0


def goodput_s(traces: Iterable[Trace], within: Span, slo: Slo) -> float:
    """Answers that kept every limit of the SLO / length of the span"""
    return _per_second(sum(keeps(trace, slo) for trace in traces), within)


def keeps(trace: Trace, slo: Slo) -> bool:
    """True also where an answer is too short to have the time that is limited"""
    found = (
        (ttft_s(trace), slo.ttft_s),
        (tpot_s(trace), slo.tpot_s),
        (max(gaps_s(trace)[0], default=None), slo.itl_s),
        (e2e_s(trace), slo.e2e_s),
    )
    return all(time is None or limit is None or time <= limit for time, limit in found)


def sent_late_s(trace: Trace) -> float | None:
    """sent - due, of an open loop: the client's own fault"""
    return None if trace.due is None else trace.sent - trace.due


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


def gaps_s(trace: Trace) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A chunk of k tokens after a gap g gives k times g / k: (g / k, k), both [chunks - 1]

    Raises `ValueError` for a chunk that brought nothing, or more than any can.
    """
    chunks = Chunks.read(trace.chunks)
    tokens = np.array(chunks.tokens[1:], np.int64)
    if ((tokens < 1) | (tokens > _MOST_TOKENS)).any():
        raise ValueError("a chunk cannot bring so many tokens, or none")
    return np.diff(chunks.at) / tokens, tokens


def itl_s(traces: Sequence[Trace]) -> Spread | None:
    """Over all tokens that came in a chunk with one before it"""
    gaps = [gaps_s(trace) for trace in traces if len(trace.chunks) > 1]
    if not gaps:
        return None
    values, counts = (np.concatenate(column) for column in zip(*gaps, strict=True))
    return weighed(values, counts)


def concurrency_achieved(traces: Iterable[Trace], within: Span) -> float:
    """Sum of e2e within the span / its length: how many were really in flight, on average"""
    flights = ((trace.sent, trace.sent + trace.last) for trace in traces if trace.last is not None)
    total = math.fsum(within.overlap_s(*flight) for flight in flights)
    return total / within.length_s if within.length_s > 0 else 0.0


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


def weighed(values: NDArray[np.float64], counts: NDArray[np.int64]) -> Spread:
    """The same of values, one at least, each of which is there `counts` times; both [n]"""
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    until = np.cumsum(counts)
    n = int(until[-1])
    mean = float(values @ counts) / n
    squares = float((values - mean) ** 2 @ counts)
    return Spread(
        mean=mean,
        std=math.sqrt(squares / (n - 1)) if n > 1 else 0.0,
        min=values[0],
        p50=_percentile(values, until, 50),
        p90=_percentile(values, until, 90),
        p99=_percentile(values, until, 99),
        max=values[-1],
        n=n,
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value at rank (n - 1) * percent / 100 of sorted values, interpolated linearly"""
    rank = (len(ordered) - 1) * percent / 100
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)


def _percentile(values: NDArray[np.float64], until: NDArray[np.int64], percent: float) -> float:
    """`until`: how many lie at or before each of the sorted values"""
    rank = (int(until[-1]) - 1) * percent / 100
    below = math.floor(rank)
    above = min(below + 1, int(until[-1]) - 1)
    low, high = (float(values[until.searchsorted(at, "right")]) for at in (below, above))
    return low + (high - low) * (rank - below)


def present(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _tokens_in(trace: Trace, within: Span) -> int:
    """All of them, when none came outside: usage may count a token that had no text."""
    if trace.last is None or (within.holds(trace.sent) and within.holds(trace.sent + trace.last)):
        return trace.completion_tokens or 0
    return sum(chunk.tokens for chunk in trace.chunks if within.holds(trace.sent + chunk.at))


def _per_second(count: int, within: Span) -> float:
    return count / within.length_s if within.length_s > 0 else 0.0
