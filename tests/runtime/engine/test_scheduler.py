"""The scheduler admits in order, chunks prompts, preempts the latest, and loses nothing."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ddtree.core.sequence import Request, Sequence
from ddtree.engine.scheduler import Capacity, Plan, Scheduler


def _sequence(name: str, prompt: int, answer: int = 64, first: int = 0) -> Sequence:
    tokens = tuple(range(first, first + prompt))
    return Sequence(Request(name, tokens, max_tokens=answer), list(tokens), end=10**6)


def _capacity(pages: int, rows: int = 4, chunk: int = 32) -> Capacity:
    return Capacity(pages=pages, page_size=4, rows=rows, reach=5, prefill_chunk=chunk)


def _perform(scheduler: Scheduler, tokens: int = 1) -> Plan:
    """What an engine would do: cache the chunks, commit `tokens` to whoever decodes."""
    plan = scheduler.plan()
    for chunk in plan.chunks:
        chunk.sequence.cached = chunk.end
    scheduler.written(plan.chunks)
    for chunk in plan.chunks:
        if chunk.end == len(chunk.sequence.tokens):
            chunk.sequence.tokens.append(1)
    for sequence in plan.decode:
        sequence.cached += tokens
        sequence.tokens.extend([1] * tokens)
    return plan


def _spans(plan: Plan) -> list[tuple[Sequence, int, int]]:
    return [(chunk.sequence, chunk.begin, chunk.end) for chunk in plan.chunks]


def test_a_long_prompt_is_prefilled_in_chunks_while_others_decode() -> None:
    scheduler = Scheduler(_capacity(100, chunk=8))
    short, long = _sequence("short", 4), _sequence("long", 20, first=50)
    scheduler.add(short)
    scheduler.add(long)
    plan = _perform(scheduler)
    assert _spans(plan) == [(short, 0, 4), (long, 0, 4)]
    assert plan.decode == []
    plan = _perform(scheduler)
    assert _spans(plan) == [(long, 4, 12)]
    assert plan.decode == [short]


def test_a_step_prefills_no_more_than_its_chunk_whatever_waits() -> None:
    scheduler = Scheduler(_capacity(400, rows=8, chunk=16))
    talker = _sequence("talker", 4, first=900)
    scheduler.add(talker)
    _perform(scheduler)
    for i in range(7):
        scheduler.add(_sequence(str(i), 30 + 40 * i, first=100 * i))
    while any(not sequence.prefilled for sequence in scheduler.running) or scheduler.waiting:
        plan = _perform(scheduler)
        assert 0 < sum(chunk.end - chunk.begin for chunk in plan.chunks) <= 16
        assert talker in plan.decode


def test_short_prompts_do_not_wait_for_a_long_one_which_keeps_its_part() -> None:
    scheduler = Scheduler(_capacity(100, chunk=12))
    long, late = _sequence("long", 90, first=100), _sequence("late", 60, first=300)
    short = _sequence("short", 3)
    for sequence in (long, late, short):
        scheduler.add(sequence)
    assert _spans(_perform(scheduler)) == [(long, 0, 9), (short, 0, 3)]
    assert _spans(_perform(scheduler)) == [(long, 9, 21)]


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
    first, second = _sequence("first", 8), _sequence("second", 8, first=50)
    scheduler.add(first)
    scheduler.add(second)
    while not scheduler.preemptions:
        _perform(scheduler, tokens=3)
    assert scheduler.running == [first]
    assert list(scheduler.waiting) == [second]
    assert second.pages == [] and second.cached == 0 and second.answer_length > 0
    kept = list(second.tokens)
    scheduler.finish(first)
    plan = _perform(scheduler)
    assert [(c.sequence, c.end) for c in plan.chunks] == [(second, len(kept) - 1)]
    assert second.tokens == kept  # the root was there already: prefill adds no token
    assert scheduler.plan().decode == [second]


def test_a_sequence_that_can_never_run_is_recognised() -> None:
    scheduler = Scheduler(_capacity(4))
    assert scheduler.longest == 11  # 12 + 5 positions need 5 pages


def test_a_prompt_that_begins_like_an_earlier_one_is_prefilled_from_where_they_part() -> None:
    scheduler = Scheduler(_capacity(100))
    first, second = _sequence("first", 18), _sequence("second", 13)
    scheduler.add(first)
    _perform(scheduler)
    scheduler.finish(first)
    assert scheduler.allocator.used == 0
    scheduler.add(second)
    assert _spans(_perform(scheduler)) == [(second, 12, 13)]
    assert (second.reused, scheduler.reused) == (12, 12)
    scheduler.check_integrity()


def test_choices_of_one_prompt_prefill_it_once_and_its_last_token_each() -> None:
    scheduler = Scheduler(_capacity(100, chunk=32))
    choices = [_sequence(str(i), 16) for i in range(3)]
    for choice in choices:
        scheduler.add(choice)
    assert _spans(_perform(scheduler)) == [(choices[0], 0, 16)]
    assert _spans(_perform(scheduler)) == [(choices[1], 12, 16), (choices[2], 12, 16)]
    assert [choice.reused for choice in choices] == [0, 12, 12]
    assert choices[0].pages[:3] == choices[1].pages[:3] == choices[2].pages[:3]
    assert len({choice.pages[3] for choice in choices}) == 3
    scheduler.check_integrity()


def test_nobody_waits_for_a_block_that_is_not_being_prefilled() -> None:
    scheduler = Scheduler(_capacity(200, chunk=12))
    first, like_short = _sequence("first", 90, first=100), _sequence("like short", 200)
    short = _sequence("short", 4)
    for sequence in (first, like_short, short):
        scheduler.add(sequence)
    assert _spans(_perform(scheduler)) == [(first, 0, 8), (short, 0, 4)]
    assert like_short.cached == 0
    assert short in _perform(scheduler).decode
    assert like_short.cached == like_short.reused == 4


def test_without_the_prefix_cache_every_prompt_is_its_own() -> None:
    scheduler = Scheduler(replace(_capacity(100), prefix_cache=False))
    for i in range(2):
        scheduler.add(_sequence(str(i), 16))
    assert [(begin, end) for _, begin, end in _spans(_perform(scheduler))] == [(0, 16), (0, 16)]
    assert scheduler.allocator.used == sum(len(s.pages) for s in scheduler.running)


def test_what_a_tree_wrote_is_not_found() -> None:
    scheduler = Scheduler(_capacity(100))
    first = _sequence("first", 8)
    scheduler.add(first)
    for _ in range(4):
        _perform(scheduler, tokens=3)
    again = Sequence(Request("again", tuple(first.tokens), 5), list(first.tokens), end=10**6)
    scheduler.finish(first)
    scheduler.add(again)
    assert _spans(_perform(scheduler)) == [(again, 8, 18)]  # found the prompt, not the answer


def test_blocks_of_a_poisoned_prompt_are_not_found() -> None:
    scheduler = Scheduler(_capacity(100))
    bad, again = _sequence("bad", 16), _sequence("again", 16)
    scheduler.add(bad)
    _perform(scheduler)
    scheduler.finish(bad, poisoned=True)
    scheduler.add(again)
    assert _spans(_perform(scheduler)) == [(again, 0, 16)]
    scheduler.check_integrity()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.integers(1, 20), st.sampled_from([0, 0, 0, 7])),
        min_size=1,
        max_size=8,
    ),
    st.builds(
        replace,
        st.integers(16, 40).map(lambda pages: _capacity(pages, rows=3, chunk=7)),
        prefix_cache=st.booleans(),
    ),
    st.integers(1, 5),
)
def test_every_request_ends_whatever_the_load(
    requests: list[tuple[int, int, int]], capacity: Capacity, commits: int
) -> None:
    scheduler = Scheduler(capacity)
    for i, (prompt, answer, first) in enumerate(requests):
        scheduler.add(_sequence(str(i), prompt, answer, first))
    ended = 0
    for _ in range(2000):
        plan = _perform(scheduler, commits)
        scheduler.check_integrity()
        if plan.empty:
            break
        for sequence in list(scheduler.running):
            if sequence.answer_length >= sequence.request.max_tokens:
                scheduler.finish(sequence)
                ended += 1
    assert ended == len(requests)
    assert scheduler.allocator.used == 0
