"""Streams: chunk by chunk as the engine steps, with running usage for those who count."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import openai
import pytest

from tests.runtime.server.double import Double, saying
from tests.runtime.server.live import MODEL, Live, live, until
from tests.runtime.server.test_completions import HI, extra


def events(server: Live, path: str, **body: Any) -> list[dict[str, Any]]:
    """Every chunk of the raw stream, which must end with [DONE].

    An engine with a gate makes its next step when the last one has arrived.
    """
    said: list[dict[str, Any]] = []
    with (
        server.http() as client,
        client.stream("POST", path, json={"model": MODEL, "stream": True, **body}) as response,
    ):
        lines = [line for line in heard(response.iter_lines(), server.engine) if line]
    assert lines[-1] == "data: [DONE]"
    for line in lines[:-1]:
        said.append(json.loads(line.removeprefix("data: ")))
    return said


def heard(lines: Iterator[str], engine: Double) -> Iterator[str]:
    for line in lines:
        yield line
        if engine.gate is not None and line and '"role"' not in line:
            engine.gate.release()


def in_step(text: str, step: int = 3) -> Double:
    """An engine that waits for its reader after every step, so that no two are merged."""
    return Double(saying(text, step=step), gate=threading.Semaphore(1))


def test_a_chat_streams_its_text_as_the_engine_steps() -> None:
    with live(in_step("Hello, world!")) as server:
        said = events(server, "/v1/chat/completions", messages=HI)
    deltas = [event["choices"][0]["delta"] for event in said]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert [delta["content"] for delta in deltas[1:]] == ["Hel", "lo,", " wo", "rld", "!"]
    assert [event["choices"][0]["finish_reason"] for event in said] == [None] * 5 + ["stop"]
    assert len({event["id"] for event in said}) == 1
    assert {event["object"] for event in said} == {"chat.completion.chunk"}


def test_a_completion_streams_its_text_as_the_engine_steps() -> None:
    with live(in_step("Hello, world!")) as server:
        said = events(server, "/v1/completions", prompt="a")
    texts = [event["choices"][0]["text"] for event in said]
    assert texts == ["Hel", "lo,", " wo", "rld", "!"]
    assert {event["object"] for event in said} == {"text_completion"}


def test_the_openai_client_hears_a_streamed_chat(client: openai.OpenAI) -> None:
    with client.chat.completions.create(model=MODEL, messages=HI, stream=True) as stream:
        chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Hello, world!"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_usage_comes_last_when_asked_for(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model=MODEL, messages=HI, stream=True, stream_options={"include_usage": True}
    ) as stream:
        *before, last = list(stream)
    assert all(chunk.usage is None for chunk in before)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 14
    assert extra(last.usage)["speculative"]["verify_steps"] == 5


def test_running_usage_tells_the_tokens_of_every_chunk() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    with live(in_step("Hello, world!")) as server:
        said = events(server, "/v1/completions", prompt="a", stream_options=options)
    assert [event["usage"]["completion_tokens"] for event in said] == [3, 6, 9, 12, 14, 14]
    assert "speculative" not in said[0]["usage"]
    assert said[-1]["usage"]["speculative"]["accepted"] == 9


def test_a_held_back_chunk_still_tells_its_tokens() -> None:
    options = {"continuous_usage_stats": True}
    with live(in_step("ab STOP", step=2)) as server:
        said = events(server, "/v1/completions", prompt="a", stop=" STOP.", stream_options=options)
    assert [event["choices"][0]["text"] for event in said] == ["ab", "", "", " STOP"]
    assert [event["usage"]["completion_tokens"] for event in said] == [2, 4, 6, 8]


def test_without_running_usage_an_empty_chunk_is_not_sent() -> None:
    with live(Double(saying("ab STOP", step=2))) as server:
        said = events(server, "/v1/completions", prompt="a", stop=" STOP.")
    texts = [event["choices"][0]["text"] for event in said]
    assert "".join(texts) == "ab STOP"
    assert "" not in texts


def test_a_stop_string_across_chunks_is_never_seen() -> None:
    with live(Double(saying("one\nUser: two", step=2))) as server:
        said = events(server, "/v1/completions", prompt="a", stop=["\nUser:"])
    assert "".join(event["choices"][0]["text"] for event in said) == "one"
    assert said[-1]["choices"][0]["finish_reason"] == "stop"


def test_choices_of_one_stream_are_told_apart(server: Live) -> None:
    said = events(server, "/v1/chat/completions", messages=HI, n=3)
    texts = ["", "", ""]
    for event in said:
        for choice in event["choices"]:
            texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == ["Hello, world!"] * 3
    roles = [e["choices"][0]["index"] for e in said if "role" in e["choices"][0]["delta"]]
    assert sorted(roles) == [0, 1, 2]


def test_streamed_logprobs_belong_to_their_chunk(server: Live) -> None:
    said = events(server, "/v1/chat/completions", messages=HI, logprobs=True)
    for event in said[1:]:
        (choice,) = event["choices"]
        spelled = "".join(one["token"] for one in choice["logprobs"]["content"])
        assert spelled == choice["delta"].get("content", "")


def test_chunks_arrive_one_by_one() -> None:
    with live(Double(saying("abcdefgh", step=1, end=False), step_s=0.04)) as server:
        times = []
        with (
            server.openai() as client,
            client.completions.create(model=MODEL, prompt="a", stream=True) as stream,
        ):
            for _ in stream:
                times.append(time.monotonic())
    gaps = [b - a for a, b in pairwise(times)]
    assert len(times) >= 8
    assert sorted(gaps)[len(gaps) // 2] > 0.03  # planted: 0.04 s between steps


def test_a_stream_says_that_it_is_one_and_that_nobody_shall_buffer_it(server: Live) -> None:
    answer = server.post("/v1/completions", {"prompt": "a", "stream": True})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-accel-buffering"] == "no"


def test_two_hundred_requests_at_once_each_get_their_own_answer() -> None:
    def echo(request):  # type: ignore[no-untyped-def]
        return saying(bytes(request.prompt).decode())(request)

    async def ask(client: openai.AsyncOpenAI, number: int) -> str:
        prompt = f"prompt {number}"
        if number % 2:
            stream = await client.completions.create(model=MODEL, prompt=prompt, stream=True)
            return "".join([chunk.choices[0].text async for chunk in stream])
        return (await client.completions.create(model=MODEL, prompt=prompt)).choices[0].text

    async def main(url: str) -> list[str]:
        async with openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key="none", max_retries=0
        ) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(200)))

    with live(Double(echo, step_s=0.005)) as server:
        assert asyncio.run(main(server.url)) == [f"prompt {number}" for number in range(200)]
        assert server.engine.stats().kv_used == 0


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_reader_that_stands_still_holds_up_nobody(path: str) -> None:
    """48,000 tokens wait for a client that reads none; the engine makes them at full speed."""
    engine = Double(saying("x" * 1500, step=1, end=False))
    with live(engine) as server, server.http() as client, server.openai() as other:
        body = {"model": MODEL, "prompt": "a", "messages": HI, "max_tokens": 1500, "n": 32}
        del body["messages" if path == "/v1/completions" else "prompt"]
        with client.stream("POST", path, json={**body, "stream": True}) as slow:
            until(lambda: engine.stats().running == 0 and engine.steps >= 1500, 30)
            answer = other.completions.create(model=MODEL, prompt="b", max_tokens=3)
            assert answer.choices[0].text == "xxx"
            said = read_all(slow)
    assert said.count("x") >= 32 * 1500


def read_all(response: httpx.Response) -> str:
    return b"".join(response.iter_raw()).decode()
