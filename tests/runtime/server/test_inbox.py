"""Outputs cross from the engine's thread to the loop in bulk, and wait without growing."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise
from unittest.mock import patch

import pytest

from ddtree.core.sequence import Finish, Output, Speculation
from ddtree.server.inbox import Inbox, Postbox


def test_a_whole_step_wakes_the_loop_once() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        postbox, inbox = Postbox(loop), Inbox()
        with patch.object(loop, "call_soon_threadsafe", wraps=loop.call_soon_threadsafe) as wake:
            for index in range(50):
                postbox.to(inbox, index)(Output("r", (index,)))
            assert wake.call_count == 0
            postbox.wake()
            postbox.wake()
            taken = await inbox.take()
        assert {index: one.tokens for index, one in taken.items()} == {
            index: [index] for index in range(50)
        }
        assert wake.call_count == 1

    asyncio.run(main())


def test_what_waits_for_a_slow_reader_is_one_arrival_in_order() -> None:
    async def main() -> None:
        inbox, times = Inbox(lambda *heard: times.append(heard[2])), list[float]()
        for step in range(100):
            found = Speculation(verify_steps=step + 1)
            inbox.put(0, Output("r", (step, step), speculation=found), at=float(step))
        inbox.put(0, Output("r", (), finish=Finish.LENGTH), at=100.0)
        taken = (await inbox.take())[0]
        assert taken.tokens == [step for step in range(100) for _ in "ab"]
        assert (taken.finish, taken.speculation) == (Finish.LENGTH, Speculation(verify_steps=100))
        assert times == [float(at) for at in range(101)]  # each was timed as it came

    asyncio.run(main())


def test_nothing_is_lost_between_two_threads() -> None:
    async def main() -> list[int]:
        inbox, heard = Inbox(), list[int]()
        postbox = Postbox(asyncio.get_running_loop())
        post = postbox.to(inbox, 0)

        def engine() -> None:
            for token in range(20_000):
                post(Output("r", (token,)))
                postbox.wake()
            post(Output("r", (), finish=Finish.STOP))
            postbox.wake()

        thread = threading.Thread(target=engine)
        thread.start()
        finish = None
        while finish is None:
            arrival = (await inbox.take())[0]
            heard += arrival.tokens
            finish = arrival.finish
        thread.join()
        return heard

    assert asyncio.run(main()) == list(range(20_000))


def test_an_output_after_the_server_is_gone_does_not_reach_the_engine_as_an_error() -> None:
    loop = asyncio.new_event_loop()
    postbox = Postbox(loop)
    loop.close()
    postbox.to(Inbox(), 0)(Output("r", (1,)))
    postbox.wake()


def test_the_bell_rings_once_for_all_that_came_and_for_what_failed() -> None:
    async def main() -> None:
        postbox, inbox, rung = Postbox(asyncio.get_running_loop()), Inbox(), list[list[int]]()
        inbox.bell = lambda: rung.append([t for one in inbox.taken().values() for t in one.tokens])
        for token in range(3):
            postbox.to(inbox, token % 2)(Output("r", (token,)))
        postbox.wake()
        await asyncio.sleep(0.01)
        assert rung == [[0, 2, 1]]
        with pytest.raises(ConnectionError):
            inbox.fail(ConnectionError())

    asyncio.run(main())


def test_what_takes_long_to_write_is_written_half_of_the_time() -> None:
    """20 ms for each: what comes within another 20 ms goes out together."""

    def work() -> None:
        spent, began = time.thread_time(), time.monotonic()
        while time.thread_time() - spent < 0.02:
            pass
        rung.append((began, time.monotonic(), len(inbox.taken()[0].tokens)))

    async def main() -> None:
        postbox = Postbox(asyncio.get_running_loop())
        inbox.bell = work
        for token in range(100):
            postbox.to(inbox, 0)(Output("r", (token,)))
            postbox.wake()
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)

    inbox, rung = Inbox(), list[tuple[float, float, int]]()
    asyncio.run(main())
    assert sum(tokens for *_, tokens in rung) == 100
    # it began no earlier than twice the work after the one before
    assert all(later[0] - sooner[0] >= 0.04 for sooner, later in pairwise(rung))
