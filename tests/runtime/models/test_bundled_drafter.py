"""The bundled drafter drafts well for the real target: a wrong layer or position shows here."""

from __future__ import annotations

import threading
from pathlib import Path

from ddtree.config import EngineConfig
from ddtree.core.sequence import Output, Request
from ddtree.engine.open import open_engine
from ddtree.server.chat import load_chat
from ddtree.server.tokenizer import load_tokenizer

QUESTION = "Write a Python function that returns the n-th triangular number."
LENGTH = 64
LEAST = 3.0  # 4.2 measured, in float32


def test_a_coding_answer_is_accepted_several_tokens_at_a_time(smollm2_gguf: Path) -> None:
    tokenizer, chat = load_tokenizer(smollm2_gguf), load_chat(smollm2_gguf)
    assert chat is not None
    engine = open_engine(
        EngineConfig(
            model=str(smollm2_gguf),
            drafter="bundled",
            mode="ddtree",
            budget=8,
            dtype="float32",
            context_length=256,
            max_running_requests=1,
        )
    )
    engine.start()
    outputs: list[Output] = []
    ended = threading.Event()

    def on_output(output: Output) -> None:
        outputs.append(output)
        if output.finish is not None:
            ended.set()

    prompt = tokenizer.encode(chat.render([{"role": "user", "content": QUESTION}]), special=True)
    engine.submit(Request("one", tuple(prompt), LENGTH), on_output)
    assert ended.wait(120), engine.failure
    engine.stop(drain=True, timeout_s=10)
    totals = outputs[-1].speculation
    assert totals is not None
    accept = 1 + totals.accepted / totals.verify_steps
    assert accept > LEAST
