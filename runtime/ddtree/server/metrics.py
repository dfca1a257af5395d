"""`/metrics`: histograms the server keeps, and the engine's own counters read when asked for.

The engine's counters are never copied into counters here, so nothing can be counted twice. The
histogram is our own because one engine step brings several tokens: their inter-token latencies
are observed together, with a weight, which prometheus-client's Histogram cannot.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ddtree.core.sequence import Output
from ddtree.server.seam import StatsLike

# Seconds. Tokens on a GPU are milliseconds apart, on two CPU cores tens of them.
_TOKEN_BUCKETS = (
    *(0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05),
    *(0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5),
)
_FIRST_BUCKETS = (
    *(0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
_WHOLE_BUCKETS = (
    *(0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0),
    *(120.0, 300.0, 600.0),
)


class Histogram:
    """Counts of values per bucket; `le` is inclusive."""

    def __init__(self, name: str, help_: str, bounds: Sequence[float]) -> None:
        self.name = name
        self.help = help_
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def family(self) -> Metric:
        labels = [*(str(bound) for bound in self._bounds), "+Inf"]
        buckets = list(zip(labels, accumulate(self._counts), strict=True))
        return HistogramMetricFamily(self.name, self.help, buckets, self._sum)


class Timeline:
    """One choice on the clock: the time of its first token, and between the tokens after it."""

    def __init__(self, metrics: Metrics, started: float) -> None:
        self._metrics = metrics
        self.started = started
        self.first: float | None = None
        self._last = started

    def hear(self, output: Output, at: float) -> None:
        new = len(output.tokens)
        if not new:
            return
        if self.first is None:
            # The other tokens of this step came with the first one, no time after it.
            self.first = at
            self._metrics.first.observe(at - self.started)
            self._metrics.between.observe(0.0, new - 1)
        else:
            self._metrics.between.observe((at - self._last) / new, new)
        self._last = at

    def end(self, reason: str, at: float) -> None:
        self._metrics.finished[reason] += 1
        self._metrics.whole.observe(at - self.started)


class Metrics(Collector):
    """Used on the event loop only."""

    def __init__(self, stats: Callable[[], StatsLike | None]) -> None:
        self._stats = stats  # None while there is no engine
        self.finished: Counter[str] = Counter()
        self.first = Histogram(
            "ddtree:time_to_first_token_seconds",
            "From the request's arrival to its first token",
            _FIRST_BUCKETS,
        )
        self.between = Histogram(
            "ddtree:inter_token_latency_seconds",
            "Between tokens; those of one step share the step's time",
            _TOKEN_BUCKETS,
        )
        self.whole = Histogram(
            "ddtree:e2e_request_latency_seconds",
            "From the request's arrival to its end",
            _WHOLE_BUCKETS,
        )
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        if stats is not None:
            yield from _gauges(stats)
            yield from _counters(stats)
        yield _labelled(
            "ddtree:request_success", "Requests by how they ended", "finished_reason", self.finished
        )
        for histogram in (self.first, self.between, self.whole):
            yield histogram.family()


def _gauges(stats: StatsLike) -> Iterator[Metric]:
    for name, help_, value in (
        ("num_requests_running", "Requests in the running batch", stats.running),
        ("num_requests_waiting", "Requests that wait for a place in it", stats.waiting),
        ("kv_cache_usage_perc", "Share of the cache's pages in use, 0 to 1", stats.kv_used),
    ):
        yield GaugeMetricFamily(f"ddtree:{name}", help_, value)


def _counters(stats: StatsLike) -> Iterator[Metric]:
    found = stats.speculation
    for name, help_, value in (
        ("prompt_tokens", "Prompt tokens taken in", stats.prompt_tokens),
        ("prefix_cache_hits", "Prompt tokens that were in the cache already", stats.reused_tokens),
        ("generation_tokens", "Tokens generated", stats.generation_tokens),
        ("num_preemptions", "Requests that lost their place and began again", stats.preemptions),
        ("prefill_steps", "Steps that took in prompts, however many", stats.prefills),
        ("spec_decode_num_drafts", "Verify steps of all sequences", found.verify_steps),
        ("spec_decode_num_draft_tokens", "Nodes verified besides the root", found.drafted),
        ("spec_decode_num_accepted_tokens", "Drafted tokens accepted", found.accepted),
    ):
        yield CounterMetricFamily(f"ddtree:{name}", help_, value)
    yield _labelled(
        "ddtree:decode_steps",
        "Steps that decoded, by the budget of their trees; 0 is autoregressive",
        "budget",
        {str(budget): count for budget, count in stats.steps.items()},
    )
    positions = {str(at): count for at, count in enumerate(found.accepted_per_position)}
    yield _labelled(
        "ddtree:spec_decode_num_accepted_tokens_per_pos",
        "Verify steps that accepted a draft at this position",
        "position",
        positions,
    )


def _labelled(name: str, help_: str, label: str, values: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, help_, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family
