"""Losslessness on the real pair: in float32 every budget gives autoregressive decoding's tokens."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ddtree.config import EngineConfig
from ddtree.core.sequence import Output, Request, Sampling
from ddtree.engine.open import open_engine
from ddtree.server.chat import load_chat
from ddtree.server.tokenizer import load_tokenizer

PROMPTS = Path(__file__).parents[2] / "ddops" / "bench" / "prompts"
ASKED_AFTER_ALL = ("Write a function that reverses a linked list.", "What is a black hole?")


def all_prompts() -> list[str]:
    """The shipped sets, and two more to make 50."""
    texts = list(ASKED_AFTER_ALL)
    for name in ("coding", "chat"):
        document = json.loads((PROMPTS / f"{name}.json").read_text())
        texts += [prompt["text"] for prompt in document["prompts"]]
    return texts


def answers(config: EngineConfig, texts: list[str], max_tokens: int) -> list[list[int]]:
    """Tokens of every answer; every third prompt is sampled with a seed, the others are greedy."""
    tokenizer, chat = load_tokenizer(config.model), load_chat(config.model)
    assert chat is not None
    engine = open_engine(config)
    engine.start()
    collected: list[list[int]] = [[] for _ in texts]
    ended = [threading.Event() for _ in texts]

    def submit(i: int, text: str) -> None:
        def on_output(output: Output) -> None:
            collected[i].extend(output.tokens)
            if output.finish is not None:
                ended[i].set()

        rendered = chat.render([{"role": "user", "content": text}])
        prompt = tuple(tokenizer.encode(rendered, special=True))
        hot = Sampling(temperature=0.8, top_p=0.95, seed=i)
        sampling = hot if i % 3 == 2 else Sampling()
        engine.submit(Request(str(i), prompt, max_tokens, sampling, tokenizer.eos_ids), on_output)

    for i, text in enumerate(texts):
        submit(i, text)
    for event in ended:
        assert event.wait(900), engine.failure
    engine.stop(drain=True, timeout_s=30)
    engine.check_integrity()
    return collected


def config(gguf: Path) -> EngineConfig:
    return EngineConfig(
        model=str(gguf), dtype="float32", context_length=512, max_running_requests=4
    )


def tree(plain: EngineConfig, budget: int) -> EngineConfig:
    return replace(plain, mode="ddtree", drafter="bundled", budget=budget)


def test_a_few_prompts_at_two_budgets(smollm2_gguf: Path) -> None:
    """The prompts begin alike: trees share what is cached of them, the plain answers do not."""
    texts = all_prompts()[:6]
    plain = config(smollm2_gguf)
    expected = answers(replace(plain, prefix_cache=False), texts, 40)
    for budget, kv_tokens in ((4, None), (16, 300)):  # 300: some are preempted
        assert answers(tree(replace(plain, kv_tokens=kv_tokens), budget), texts, 40) == expected


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 4, 8, 16, 32])
def test_fifty_prompts_of_128_tokens(
    smollm2_gguf: Path, budget: int, plain_answers: list[list[int]]
) -> None:
    assert answers(tree(config(smollm2_gguf), budget), all_prompts(), 128) == plain_answers


@pytest.fixture(scope="module")
def plain_answers(smollm2_gguf: Path) -> list[list[int]]:
    return answers(config(smollm2_gguf), all_prompts(), 128)
