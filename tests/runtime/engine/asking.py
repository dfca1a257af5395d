"""An engine on the tiny pair, and requests whose answers can be waited for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ddtree.config import EngineConfig, Mode
from ddtree.core.sequence import Output, Request, Sampling
from ddtree.engine.loop import Engine
from tests.runtime.tiny import tiny_engine

PROMPTS = [tuple(1 + (7 * i + j * j) % 10 for j in range(3 + 5 * i)) for i in range(6)]


def config(
    mode: Mode = "ar",
    budget: int = 4,
    drafter: str | None = None,
    *,
    context_length: int = 160,
    max_running_requests: int = 4,
    kv_tokens: int | None = None,
    adaptive: bool = False,
    prefix_cache: bool = True,
) -> EngineConfig:
    return EngineConfig(
        model="tiny",
        mode=mode,
        budget=budget,
        drafter=drafter,
        context_length=context_length,
        max_running_requests=max_running_requests,
        kv_tokens=kv_tokens,
        adaptive=adaptive,
        prefix_cache=prefix_cache,
        page_size=4,
        prefill_chunk=7,
    )


@contextmanager
def running(wanted: EngineConfig, lag: Literal[0, 1] = 0) -> Iterator[Engine]:
    engine = tiny_engine(wanted, lag=lag)
    try:
        yield engine
        engine.stop(drain=True, timeout_s=30)
        assert engine.failure is None
        engine.check_integrity()
        assert engine.stats().kv_used == 0
    finally:
        engine.stop(drain=False, timeout_s=5)


class Answer:
    """Collects the outputs of one request."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.outputs: list[Output] = []
        self.done = threading.Event()

    def __call__(self, output: Output) -> None:
        self.outputs.append(output)
        self.tokens.extend(output.tokens)
        if output.finish is not None:
            self.done.set()

    def wait(self) -> Output:
        assert self.done.wait(300), "no answer"  # a device may compile first
        return self.outputs[-1]


def ask(engine: Engine, requests: list[Request]) -> list[Answer]:
    answers = [Answer() for _ in requests]
    for request, answer in zip(requests, answers, strict=True):
        engine.submit(request, answer)
    for answer in answers:
        answer.wait()
    return answers


def requests(max_tokens: int = 40, sampling: Sampling | None = None) -> list[Request]:
    return [
        Request(str(i), prompt, max_tokens, sampling or Sampling())
        for i, prompt in enumerate(PROMPTS)
    ]


def tokens_of(wanted: EngineConfig, asked: list[Request]) -> list[list[int]]:
    with running(wanted) as engine:
        return [answer.tokens for answer in ask(engine, asked)]
