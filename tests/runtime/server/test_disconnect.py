"""A client that goes away leaves nothing behind in the engine."""

from __future__ import annotations

import asyncio
import threading

import httpx
import openai
import pytest

from tests.runtime.server.double import Double, endless
from tests.runtime.server.live import MODEL, Live, live, until
from tests.runtime.server.test_completions import HI


def left_nothing(server: Live, aborted: int) -> None:
    until(lambda: len(server.engine.aborted) == aborted)
    assert server.engine.stats().kv_used == 0
    until(lambda: server.service.in_flight == 0)
    assert server.service.metrics.finished == {"abort": aborted}


def test_a_client_that_leaves_its_stream_frees_its_pages() -> None:
    with live(Double(endless, step_s=0.005)) as server:
        with (
            server.openai() as client,
            client.chat.completions.create(model=MODEL, messages=HI, stream=True, n=2) as stream,
        ):
            next(iter(stream))
        left_nothing(server, aborted=2)


def test_a_client_that_stops_waiting_for_a_whole_answer_frees_its_pages() -> None:
    with live(Double(endless, step_s=0.005)) as server:
        with server.openai() as client, pytest.raises(openai.APITimeoutError):
            client.completions.create(model=MODEL, prompt="a", max_tokens=1900, timeout=0.3)
        left_nothing(server, aborted=1)


def test_a_client_that_leaves_before_the_first_token_frees_its_pages() -> None:
    with live(Double(endless, gate=threading.Semaphore(0))) as server:
        with pytest.raises(httpx.ReadTimeout), httpx.Client(timeout=0.2) as client:
            body = {"model": MODEL, "prompt": "a", "max_tokens": 1000, "stream": True}
            with client.stream("POST", f"{server.url}/v1/completions", json=body) as response:
                next(response.iter_lines())
        left_nothing(server, aborted=1)


def test_fifty_clients_that_leave_at_once_leave_the_others_alone() -> None:
    async def leave(client: openai.AsyncOpenAI) -> None:
        stream = await client.completions.create(
            model=MODEL, prompt="leave", stream=True, max_tokens=1900
        )
        async for _ in stream:
            break
        await stream.close()

    async def stay(client: openai.AsyncOpenAI) -> str:
        answer = await client.completions.create(model=MODEL, prompt="stay", max_tokens=40)
        return answer.choices[0].text

    async def main(url: str) -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            leaving = [leave(client) for _ in range(50)]
            staying = asyncio.gather(*(stay(client) for _ in range(10)))
            await asyncio.gather(*leaving)
            return await staying

    with live(Double(endless, step_s=0.01)) as server:
        assert asyncio.run(main(server.url)) == ["abc " * 10] * 10
        until(lambda: len(server.engine.aborted) == 50)
        assert server.engine.stats().kv_used == 0
