"""What a reader does not fetch waits without growing; the bell rings once for what failed."""

from __future__ import annotations

import asyncio

import pytest

from ddtree.core.sequence import Finish, Output, Speculation
from ddtree.server.inbox import Inbox


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


def test_a_reader_hears_at_once_that_nothing_more_will_come() -> None:
    async def main() -> None:
        inbox, rung = Inbox(), list[str]()
        inbox.bell = lambda: rung.append("rung")
        reading = asyncio.create_task(inbox.take())
        await asyncio.sleep(0)
        inbox.fail(ConnectionError("gone"))
        with pytest.raises(ConnectionError, match="gone"):
            await reading
        with pytest.raises(ConnectionError, match="gone"):
            inbox.taken()
        assert rung == ["rung"]

    asyncio.run(main())
