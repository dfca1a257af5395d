"""`/v1/completions` and `/v1/chat/completions`, asked by the real openai client."""

from __future__ import annotations

import math
from typing import Any

import openai
import pytest
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionMessageParam

from ddtree.core.sequence import Speculative
from tests.runtime.server.double import EOS, Double, endless, saying
from tests.runtime.server.live import MODEL, Live, live, until

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


def extra(usage: CompletionUsage | None) -> dict[str, Any]:
    """What usage says beyond OpenAI's fields."""
    assert usage is not None
    assert usage.model_extra is not None
    return usage.model_extra


def test_a_chat_is_answered(server: Live, client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HI)
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "Hello, world!")
    assert choice.finish_reason == "stop"
    assert answer.id.startswith("chatcmpl-")
    assert bytes(server.engine.seen[-1].prompt) == b"user: hi\nassistant: "


def test_a_completion_is_answered(server: Live, client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="say", max_tokens=5)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("Hello", "length")
    assert answer.object == "text_completion"
    assert bytes(server.engine.seen[-1].prompt) == b"say"


def test_usage_counts_the_engines_tokens_and_its_speculation(client: openai.OpenAI) -> None:
    usage = client.chat.completions.create(model=MODEL, messages=HI).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (20, 14, 34)
    details = usage.completion_tokens_details
    assert details is not None
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (9, 11)
    assert extra(usage)["speculative"] == {
        "verify_steps": 5,
        "drafted": 20,
        "accepted": 9,
        "accepted_per_position": [5, 4, 0, 0],
    }


def test_usage_tells_once_what_the_prompts_found_in_the_cache() -> None:
    with live(Double(reused=2)) as server, server.openai() as client:
        usage = client.completions.create(model=MODEL, prompt=["ab", "cd"], n=3).usage
    assert usage is not None and usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens) == (4, 4)


def test_the_sampling_asked_for_reaches_the_engine(server: Live, client: openai.OpenAI) -> None:
    client.completions.create(
        model=MODEL,
        prompt="a",
        temperature=0.5,
        top_p=0.9,
        seed=7,
        max_tokens=3,
        extra_body={"top_k": 40, "min_p": 0.1, "speculative": {"mode": "chain", "budget": 4}},
    )
    sent = server.engine.seen[-1]
    assert (sent.sampling.temperature, sent.sampling.top_p, sent.sampling.seed) == (0.5, 0.9, 7)
    assert (sent.sampling.top_k, sent.sampling.min_p) == (40, 0.1)
    assert sent.speculative == Speculative("chain", 4)
    assert (sent.max_tokens, sent.stop_token_ids) == (3, frozenset({EOS}))


def test_without_a_seed_every_request_has_its_own(server: Live, client: openai.OpenAI) -> None:
    for _ in range(5):
        client.completions.create(model=MODEL, prompt="a")
    assert len({request.sampling.seed for request in server.engine.seen[-5:]}) == 5


def test_n_choices_have_distinct_seeds_and_are_counted_once_as_prompt(
    server: Live, client: openai.OpenAI
) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HI, n=3, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.message.content for choice in answer.choices} == {"Hello, world!"}
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (20, 42)
    seeds = [request.sampling.seed for request in server.engine.seen[-3:]]
    assert seeds[0] == 7
    assert len(set(seeds)) == 3
    client.chat.completions.create(model=MODEL, messages=HI, n=3, seed=7)
    assert [request.sampling.seed for request in server.engine.seen[-3:]] == seeds


@pytest.mark.parametrize("prompt", ["ab", ["ab", "c"], [97, 98], [[97, 98], [99]]])
def test_a_prompt_may_be_text_or_tokens_one_or_several(
    server: Live, client: openai.OpenAI, prompt: Any
) -> None:
    answer = client.completions.create(model=MODEL, prompt=prompt, n=2)
    several = isinstance(prompt[0], list) or prompt == ["ab", "c"]
    prompts = [b"ab", b"ab", *([b"c", b"c"] if several else [])]
    assert [bytes(request.prompt) for request in server.engine.seen[-len(prompts) :]] == prompts
    assert [choice.index for choice in answer.choices] == list(range(len(prompts)))
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == (3 if several else 2)


def test_max_tokens_is_bounded_by_the_context(server: Live, client: openai.OpenAI) -> None:
    context = server.engine.config.context_length
    client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x" * 200}])
    assert server.engine.seen[-1].max_tokens == context - 218
    client.chat.completions.create(model=MODEL, messages=HI, max_completion_tokens=9)
    assert server.engine.seen[-1].max_tokens == 9
    client.completions.create(model=MODEL, prompt="x" * 1990, max_tokens=500)
    assert server.engine.seen[-1].max_tokens == 10


def test_ignore_eos_goes_on_after_the_end(server: Live, client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="a", max_tokens=14, extra_body={"ignore_eos": True}
    )
    assert server.engine.seen[-1].stop_token_ids == frozenset()
    assert (answer.choices[0].finish_reason, answer.choices[0].text) == ("length", "Hello, world!")


def test_a_stop_string_cuts_the_text_and_ends_the_engines_work() -> None:
    with live(Double(endless, step_s=0.001)) as server, server.openai() as client:
        answer = client.chat.completions.create(model=MODEL, messages=HI, stop=["never", "c a"])
        assert answer.choices[0].message.content == "ab"
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 8  # two steps of four: what was generated
        until(lambda: server.engine.aborted == [f"{answer.id}-0"])
        assert server.engine.stats().kv_used == 0


def test_a_stop_string_in_the_last_step_needs_no_abort() -> None:
    with live(Double(saying("one STOP", step=50))) as server, server.openai() as client:
        answer = client.completions.create(model=MODEL, prompt="a", stop=" STOP")
        assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("one", "stop")
        assert server.engine.aborted == []


def test_chat_logprobs_come_with_bytes_and_alternatives(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HI, logprobs=True, top_logprobs=2)
    said = answer.choices[0].logprobs
    assert said is not None
    assert said.content is not None
    assert "".join(one.token for one in said.content) == "Hello, world!"
    assert said.content[0].bytes == [ord("H")]
    assert said.content[0].logprob == pytest.approx(math.log(0.5))
    assert [one.token for one in said.content[0].top_logprobs] == ["x", "y"]


def test_completion_logprobs_come_with_offsets() -> None:
    with live(Double(saying("a€b", step=2))) as server, server.openai() as client:
        said = client.completions.create(model=MODEL, prompt="a", logprobs=1).choices[0].logprobs
    assert said is not None
    assert said.tokens == ["a", "bytes:\\xe2", "bytes:\\x82", "bytes:\\xac", "b"]
    assert said.text_offset == [0, 1, 1, 1, 2]
    assert said.token_logprobs == pytest.approx([math.log(0.5)] * 5)
    assert said.top_logprobs is not None
    assert said.top_logprobs[0] == {"x": pytest.approx(math.log(0.25))}


def test_without_logprobs_none_are_sent(client: openai.OpenAI) -> None:
    assert client.completions.create(model=MODEL, prompt="a").choices[0].logprobs is None


def test_the_served_model_is_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "ddtree"
