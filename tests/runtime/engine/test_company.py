"""Prompts wait for company where a prefill costs something, and never for long."""

from __future__ import annotations

import random

import pytest

from ddtree.core.sequence import Request, Sequence
from ddtree.engine.company import PATIENCE, Company
from ddtree.engine.scheduler import Capacity, Plan, Scheduler

PREFILL, STEP, A_PROMPT = 0.010, 0.0034, 0.00002  # seconds, of SmolLM2-135M on an H200


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Served:
    """A scheduler whose steps take the time they say; every step commits a token a row."""

    def __init__(self, seconds: float, *, rows: int = 64, chunk: int = 4096, pages: int = 9999):
        self.clock = Clock()
        company = Company(seconds, chunk, self.clock)
        capacity = Capacity(pages, 16, rows, reach=17, prefill_chunk=chunk, prefix_cache=False)
        self.scheduler = Scheduler(capacity, company)
        self.count = 0

    def ask(self, tokens: int = 32) -> Sequence:
        self.count += 1
        sequence = Sequence(Request(str(self.count), (1,) * tokens, 10**6), [1] * tokens, 10**6)
        self.scheduler.add(sequence)
        return sequence

    def step(self) -> Plan:
        plan = self.scheduler.plan()
        for chunk in plan.chunks:
            chunk.sequence.cached = chunk.end
            if chunk.end == len(chunk.sequence.tokens):
                chunk.sequence.tokens.append(1)
        for sequence in plan.decode:
            sequence.cached += 1
            sequence.tokens.append(1)
        self.clock.now += PREFILL + A_PROMPT * len(plan.chunks) if plan.chunks else 0.0
        self.clock.now += STEP if plan.decode else 0.0
        return plan

    def answers(self, count: int) -> None:
        """So many are being answered, prefilled together."""
        for _ in range(count):
            self.ask(16)
        assert len(self.step().chunks) == count


def _prompts(count: int, tokens: int = 8) -> list[Sequence]:
    return [Sequence(Request(str(i), (1,) * tokens, 9), [1] * tokens, 99) for i in range(count)]


def test_waits_together_are_worth_what_a_prefill_takes_from_the_answers() -> None:
    clock, (first, second) = Clock(), _prompts(2)
    company = Company(0.010, 512, clock)
    assert not company.begins([first], 4)  # 40 ms of answers would be lost
    clock.now += 0.018
    assert not company.begins([first, second], 4)
    clock.now += 0.0105
    assert not company.begins([first, second], 4)  # 28.5 + 10.5
    clock.now += 0.001
    assert company.begins([first, second], 4)


def test_one_that_is_answered_waits_for_no_longer_than_a_prefill() -> None:
    clock, prompts = Clock(), _prompts(1)
    company = Company(0.010, 512, clock)
    assert not company.begins(prompts, 1)
    clock.now += 0.0101
    assert company.begins(prompts, 1)


def test_who_would_not_fit_is_not_waited_for() -> None:
    company = Company(0.010, 512, Clock())
    assert not company.begins(_prompts(3, tokens=128), 60)
    assert company.begins(_prompts(4, tokens=128), 60)


def test_a_newcomer_beside_many_waits_and_is_joined() -> None:
    served = Served(PREFILL)
    served.answers(60)
    newcomers = [served.ask()]
    began = served.clock.now
    while not (plan := served.step()).chunks:
        assert len(plan.decode) == 60
        if len(newcomers) < 4:
            newcomers.append(served.ask())
    assert [chunk.sequence for chunk in plan.chunks] == newcomers
    assert 5 * STEP < served.clock.now - began - PREFILL < PATIENCE + 3 * STEP


def test_alone_a_prompt_begins_at_once() -> None:
    served = Served(PREFILL)
    one = served.ask()
    assert [chunk.sequence for chunk in served.step().chunks] == [one]


def test_nobody_waits_beyond_patience() -> None:
    served = Served(1.0)
    served.answers(60)
    one, began = served.ask(), served.clock.now
    while one.cached == 0:
        served.step()
    assert 0 < served.clock.now - began - PREFILL - PATIENCE < 3 * STEP


def test_where_a_prefill_costs_nothing_nobody_waits() -> None:
    served = Served(0.0)
    served.answers(60)
    for _ in range(3):
        one = served.ask()
        assert [chunk.sequence for chunk in served.step().chunks] == [one]


def test_a_long_prompt_goes_on_and_takes_the_others_along() -> None:
    served = Served(PREFILL, chunk=64)
    served.answers(2)
    long = served.ask(200)  # does not fit: nothing to wait for
    assert [(c.sequence, c.end) for c in served.step().chunks] == [(long, 64)]
    short = served.ask(16)
    assert [c.sequence for c in served.step().chunks] == [long, short]
    while not long.prefilled:
        assert [c.sequence for c in served.step().chunks] == [long]


def test_who_waits_may_go_and_who_lost_its_row_has_waited() -> None:
    served = Served(PREFILL, rows=8)
    served.answers(6)
    one, other = served.ask(), served.ask()
    assert not served.step().chunks
    served.scheduler.finish(one)
    served.scheduler._preempt(other)
    assert [c.sequence for c in served.step().chunks] == [other]
    served.scheduler.check_integrity()


def test_waiting_for_a_row_is_not_waiting_for_company() -> None:
    served = Served(PREFILL, rows=4)
    served.answers(4)
    one = served.ask()
    for _ in range(30):
        served.step()
    served.scheduler.finish(served.scheduler.running[0])
    assert not served.step().chunks  # had no row until now
    assert one in served.scheduler.running


def _tokens_per_second(seconds: float, chunk: int) -> float:
    """64 streams; answers of 25 to 75 steps, each followed by another prompt of 192 tokens."""
    draw, served = random.Random(1), Served(seconds, chunk=chunk)
    left = {served.ask(192): draw.randint(25, 75) for _ in range(64)}
    tokens, began = 0, served.clock.now
    while served.count < 1000:
        for sequence in served.step().decode:
            tokens += 1
            left[sequence] -= 1
            if not left[sequence]:
                served.scheduler.finish(sequence)
                left[served.ask(192)] = draw.randint(25, 75)
    return tokens / (served.clock.now - began)


@pytest.mark.parametrize(("chunk", "gain"), [(512, 1.15), (2048, 1.7), (4096, 2.0)])
def test_company_pays(chunk: int, gain: float) -> None:
    assert _tokens_per_second(PREFILL, chunk) > gain * _tokens_per_second(0.0, chunk)
