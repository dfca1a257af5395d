"""The real target, read from its GGUF, against transformers reading the same file."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gguf
import pytest
import torch
import transformers

from ddtree.models.load import load_target
from ddtree.server.chat import load_chat
from ddtree.server.tokenizer import load_tokenizer
from tests.runtime.models.session import CPU, Session

QUESTIONS = (
    "Write a Python function that returns the n-th triangular number.",
    "What is the capital of France, and what is it known for?",
    "Translate 'good morning' into Spanish.",
)
LENGTH = 32


@dataclass(frozen=True)
class Pair:
    theirs: Any
    ours: Session
    prompts: list[list[int]]


@pytest.fixture(scope="module")
def pair(smollm2_gguf: Path) -> Pair:
    once = cache(gguf.get_tensor_name_map)  # transformers makes it for every module: 6 of 18 s
    with patch.object(gguf, "get_tensor_name_map", once), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers' reader, not ours
        theirs = transformers.AutoModelForCausalLM.from_pretrained(
            smollm2_gguf.parent, gguf_file=smollm2_gguf.name, dtype=torch.float32
        )
    tokenizer, chat = load_tokenizer(smollm2_gguf), load_chat(smollm2_gguf)
    assert chat is not None
    rendered = [chat.render([{"role": "user", "content": text}]) for text in QUESTIONS]
    prompts = [tokenizer.encode(text, special=True) for text in rendered]
    ours = Session(load_target(smollm2_gguf, torch.float32, CPU), longest=128)
    return Pair(theirs, ours, prompts)


def test_logits_are_transformers_logits(pair: Pair) -> None:
    prompt = torch.tensor([pair.prompts[0]])
    with torch.inference_mode():
        wanted = pair.theirs(prompt).logits
    pair.ours.start.zero_()
    torch.testing.assert_close(pair.ours.logits(prompt), wanted, atol=2e-3, rtol=1e-3)


def test_greedy_answers_are_transformers_answers(pair: Pair) -> None:
    """Token by token here, in one forward there: if every next token agrees, so do the answers."""
    for prompt in pair.prompts:
        pair.ours.start.zero_()
        answer = pair.ours.greedy(prompt, LENGTH)
        with torch.inference_mode():
            logits = pair.theirs(torch.tensor([prompt + answer[:-1]])).logits
        assert logits[0, len(prompt) - 1 :].argmax(-1).tolist() == answer
