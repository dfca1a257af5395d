"""The scheduler admits in order, chunks prompts, preempts the latest, and loses nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ddtree.core.sequence import Request, Sequence
from ddtree.engine.scheduler import Capacity, Plan, Scheduler


def _sequence(name: str, prompt: int, answer: int = 64) -> Sequence:
    tokens = tuple(range(prompt))
    return Sequence(Request(name, tokens, max_tokens=answer), list(tokens))


def _capacity(pages: int, rows: int = 4, chunk: int = 32) -> Capacity:
    return Capacity(pages=pages, page_size=4, rows=rows, reach=5, prefill_chunk=chunk)


def _perform(plan: Plan, tokens: int = 1) -> None:
    """What a runner would do: cache the chunks, commit `tokens` to whoever decodes."""
    for chunk in plan.chunks:
        chunk.sequence.cached = chunk.end
        if chunk.end == len(chunk.sequence.tokens):
            chunk.sequence.tokens.append(1)
    for sequence in plan.decode:
        sequence.cached += tokens
        sequence.tokens.extend([1] * tokens)


def test_a_long_prompt_is_prefilled_in_chunks_while_others_decode() -> None:
    scheduler = Scheduler(_capacity(100, chunk=8))
    short, long = _sequence("short", 4), _sequence("long", 20)
    scheduler.add(short)
    scheduler.add(long)
    plan = scheduler.plan()
    assert [(c.sequence, c.begin, c.end) for c in plan.chunks] == [(short, 0, 4), (long, 0, 4)]
    assert plan.decode == []
    _perform(plan)
    plan = scheduler.plan()
    assert [(c.sequence, c.begin, c.end) for c in plan.chunks] == [(long, 4, 12)]
    assert plan.decode == [short]


def test_rows_limit_how_many_run_and_the_rest_wait_in_order() -> None:
    scheduler = Scheduler(_capacity(100, rows=2))
    sequences = [_sequence(str(i), 3) for i in range(4)]
    for sequence in sequences:
        scheduler.add(sequence)
    scheduler.plan()
    assert scheduler.running == sequences[:2]
    scheduler.finish(sequences[0])
    scheduler.plan()
    assert scheduler.running == [sequences[1], sequences[2]]


def test_when_pages_run_out_the_latest_gives_way_and_keeps_its_tokens() -> None:
    scheduler = Scheduler(_capacity(8))
    first, second = _sequence("first", 8), _sequence("second", 8)
    scheduler.add(first)
    scheduler.add(second)
    while not scheduler.preemptions:
        _perform(scheduler.plan(), tokens=3)
    assert scheduler.running == [first]
    assert list(scheduler.waiting) == [second]
    assert second.pages == [] and second.cached == 0 and second.answer_length > 0
    kept = list(second.tokens)
    scheduler.finish(first)
    plan = scheduler.plan()
    assert [(c.sequence, c.end) for c in plan.chunks] == [(second, len(kept) - 1)]
    _perform(plan)
    assert second.tokens == kept  # the root was there already: prefill adds no token
    assert scheduler.plan().decode == [second]


def test_a_sequence_that_can_never_run_is_recognised() -> None:
    scheduler = Scheduler(_capacity(4))
    assert scheduler.fits(11)
    assert not scheduler.fits(12)  # 12 + 5 positions need 5 pages


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 20)), min_size=1, max_size=8),
    st.integers(16, 40),
    st.integers(1, 5),
)
def test_every_request_ends_whatever_the_load(
    requests: list[tuple[int, int]], pages: int, commits: int
) -> None:
    scheduler = Scheduler(_capacity(pages, rows=3, chunk=7))
    for i, (prompt, answer) in enumerate(requests):
        scheduler.add(_sequence(str(i), prompt, answer))
    ended = 0
    for _ in range(2000):
        plan = scheduler.plan()
        scheduler.check_integrity()
        if plan.empty:
            break
        _perform(plan, commits)
        for sequence in list(scheduler.running):
            if sequence.answer_length >= sequence.request.max_tokens:
                scheduler.finish(sequence)
                ended += 1
    assert ended == len(requests)
    assert scheduler.allocator.used == 0
