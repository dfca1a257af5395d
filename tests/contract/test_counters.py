"""What the engine counts is what bench reads: names, differences and positions."""

from __future__ import annotations

from dataclasses import dataclass, field

from ddops.analysis.chosen import chosen
from ddops.bench.counters import parse, speculation
from ddops.engines.ddtree import DDTREE
from ddtree.core.sequence import Speculation
from ddtree.server.metrics import Metrics
from tests.ddops import records


@dataclass
class Stats:
    running: int = 1
    waiting: int = 0
    kv_used: float = 0.5
    speculation: Speculation = field(default_factory=Speculation)
    prompt_tokens: int = 7
    reused_tokens: int = 4
    generation_tokens: int = 3
    preemptions: int = 0
    prefills: int = 1
    steps: dict[int, int] = field(default_factory=lambda: {0: 5, 8: 0})


def test_bench_understands_every_counter_the_engine_publishes() -> None:
    stats = Stats()
    metrics = Metrics(lambda: stats)
    before = parse(metrics.text().decode())
    stats.speculation = Speculation(
        verify_steps=10, drafted=160, accepted=17, accepted_per_position=(9, 6, 2)
    )
    stats.generation_tokens = 30
    seen = speculation(before, parse(metrics.text().decode()))
    assert (seen.steps, seen.drafted, seen.accepted, seen.generated) == (10, 160, 17, 27)
    assert seen.per_position == (9, 6, 2)


def test_the_report_understands_which_budgets_the_engine_chose() -> None:
    stats = Stats()
    metrics = Metrics(lambda: stats)
    before = parse(metrics.text().decode())
    stats.steps = {0: 5, 8: 12}
    after = parse(metrics.text().decode())
    of = records.matrix()
    counted = {"counters_before": before, "counters_after": after}
    assert chosen(records.records(of)[0].model_copy(update=counted)) == {8: 12}


def test_an_engine_without_a_model_has_no_counters_yet() -> None:
    text = Metrics(lambda: None).text().decode()
    names = DDTREE.counters
    assert names.accepted is not None
    assert not any(name in text for name in (names.steps, names.accepted, names.generated))
