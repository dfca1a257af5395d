"""The whole path once: the command line, the real model and drafter, the real openai client."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.runtime.server.live import until
from tests.runtime.server.test_completions import extra
from tests.runtime.server.test_life import Process

MODEL = "smollm2"


@pytest.fixture(scope="module")
def process(smollm2_gguf: Path) -> Iterator[Process]:
    argv = [
        *(sys.executable, "-m", "ddtree", "serve", "--port", "0", "--served-model-name", MODEL),
        *("--model", str(smollm2_gguf), "--mode", "ddtree", "--drafter", "bundled"),
        *("--budget", "8", "--context-length", "512", "--max-running-requests", "4"),
    ]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as popen:
        process = Process(popen)
        try:
            yield process
        finally:
            popen.kill()
            process.end()


@pytest.fixture(scope="module")
def client(process: Process) -> Iterator[openai.OpenAI]:
    until(lambda: process.said("ready") or process.popen.poll() is not None, 120)
    assert process.said("ready"), process.log
    with openai.OpenAI(base_url=f"{process.url}/v1", api_key="none", max_retries=0) as client:
        yield client


QUESTION = "Write a Python function that adds two numbers."


def cached(usage: openai.types.CompletionUsage | None) -> int:
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    return usage.prompt_tokens_details.cached_tokens or 0


def test_a_greedy_chat_is_the_same_streamed_whole_and_repeated(client: openai.OpenAI) -> None:
    def ask() -> openai.types.chat.ChatCompletion:
        return client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": QUESTION}],
            temperature=0,
            max_tokens=48,
        )

    whole = ask()
    text = whole.choices[0].message.content
    assert text
    assert "def " in text
    again = ask()
    assert again.choices[0].message.content == text
    assert (cached(whole.usage), cached(again.usage) > 0) == (0, True)
    with client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=48,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        chunks = list(stream)
    deltas = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(deltas) == text
    assert chunks[-1].usage == again.usage
    found = extra(whole.usage)["speculative"]
    assert whole.usage is not None
    # The first token comes from the prompt; each verify step brings its drafts and one more.
    made = 1 + found["verify_steps"] + found["accepted"]
    assert whole.usage.completion_tokens == made
    assert found["accepted"] > 0


def test_a_seed_repeats_an_answer_and_logprobs_spell_it(client: openai.OpenAI) -> None:
    def ask(seed: int) -> openai.types.Completion:
        return client.completions.create(
            model=MODEL, prompt="Once upon a time", temperature=0.9, max_tokens=24, seed=seed,
            logprobs=2,
        )  # fmt: skip

    first = ask(1)
    assert ask(1).choices[0].text == first.choices[0].text != ask(2).choices[0].text
    said = first.choices[0].logprobs
    assert said is not None
    assert said.tokens is not None
    assert "".join(said.tokens) == first.choices[0].text
    assert said.token_logprobs is not None
    assert all(one <= 0 for one in said.token_logprobs)


def test_a_request_chooses_its_own_decoding_within_the_servers(client: openai.OpenAI) -> None:
    def ask(speculative: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        answer = client.completions.create(
            model=MODEL, prompt="1, 2, 3, 4,", temperature=0, max_tokens=24,
            extra_body={"speculative": speculative},
        )  # fmt: skip
        return answer.choices[0].text, extra(answer.usage)["speculative"]

    text, plain = ask({"mode": "ar"})
    assert plain == {"verify_steps": 0, "drafted": 0, "accepted": 0, "accepted_per_position": []}
    for speculative in ({"mode": "chain"}, {"budget": 3}, {}):
        same, counted = ask(speculative)
        assert same == text
        assert counted["accepted"] > 0
        assert counted["drafted"] <= speculative.get("budget", 8) * counted["verify_steps"]
    with pytest.raises(openai.BadRequestError, match="more than the 8") as caught:
        ask({"budget": 9})
    assert (caught.value.param, caught.value.code) == ("speculative.budget", "invalid_value")


def test_a_stop_string_ends_the_answer_before_it(client: openai.OpenAI) -> None:
    asked = {"model": MODEL, "prompt": "1, 2, 3, 4, 5,", "temperature": 0, "max_tokens": 40}
    free = client.completions.create(**asked).choices[0].text  # type: ignore[call-overload]
    assert " 9" in free
    cut = client.completions.create(**asked, stop=" 9")  # type: ignore[call-overload]
    assert cut.choices[0].text == free.partition(" 9")[0]
    assert cut.choices[0].finish_reason == "stop"


def test_a_client_that_leaves_frees_its_pages(client: openai.OpenAI, process: Process) -> None:
    with client.completions.create(
        model=MODEL,
        prompt="Once",
        max_tokens=400,
        stream=True,
        n=3,
        extra_body={"ignore_eos": True},
    ) as stream:
        next(iter(stream))
    until(lambda: "ddtree:kv_cache_usage_perc 0.0" in httpx.get(f"{process.url}/metrics").text)


def test_a_prompt_beyond_the_context_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=MODEL, prompt="word " * 600)
    assert caught.value.code == "context_length_exceeded"


def test_sigterm_ends_the_process_with_0(process: Process, client: openai.OpenAI) -> None:
    client.completions.create(model=MODEL, prompt="Last words:", max_tokens=4)
    process.popen.send_signal(signal.SIGTERM)
    assert process.end() == 0
