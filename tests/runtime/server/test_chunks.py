"""Chunks are OpenAI's JSON, whatever the text, though most of each is rendered once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddtree.core.sequence import Request, Speculation
from ddtree.server.answer import Counts
from ddtree.server.choice import Named, Piece
from ddtree.server.chunks import Chunks
from ddtree.server.intake import Ask

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def ask(
    *, chat: bool = False, usage: bool = False, running: bool = False, named: bool = False
) -> Ask:
    return Ask(
        id="cmpl-1",
        chat=chat,
        model='a "model"',
        created=7,
        requests=(Request("r", (1, 2, 3), 5, logprobs=0 if named else None),),
        choices=1,
        prompt_tokens=3,
        stops=(),
        stream=True,
        include_usage=usage,
        running_usage=running,
    )


def read(event: str) -> dict[str, Any]:
    """What an event says; it must be one line, or it would be two events."""
    assert event.startswith("data: ") and event.endswith("\n\n")
    assert event.count("\n") == 2 and "\r" not in event
    said: dict[str, Any] = json.loads(event.removeprefix("data: "))
    return said


@given(TEXT)
def test_any_text_comes_back(text: str) -> None:
    said = read(Chunks(ask()).piece(0, Piece(text), 4))
    assert said == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 7,
        "model": 'a "model"',
        "system_fingerprint": said["system_fingerprint"],
        "choices": [{"index": 0, "logprobs": None, "finish_reason": None, "text": text}],
    }


@given(TEXT)
def test_a_chat_says_who_speaks_then_what_and_why_it_ended(text: str) -> None:
    chunks = Chunks(ask(chat=True, usage=True))
    opening, middle, end = (
        read(event)
        for event in (
            chunks.opening(0, 1),
            chunks.piece(0, Piece(text), 1),
            chunks.piece(0, Piece("", finish="stop"), 2),
        )
    )
    assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert middle["choices"][0]["delta"] == {"content": text}
    assert (end["choices"][0]["delta"], end["choices"][0]["finish_reason"]) == ({}, "stop")
    assert {said["object"] for said in (opening, middle, end)} == {"chat.completion.chunk"}
    assert [said["usage"] for said in (opening, middle, end)] == [None] * 3


def test_running_usage_counts_the_tokens_so_far() -> None:
    said = read(Chunks(ask(running=True)).piece(0, Piece("a"), 4))
    assert said["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def test_logprobs_spell_their_tokens() -> None:
    piece = Piece("\u00e9", logprobs=(Named("\u00e9".encode(), -0.5, 0, ()),))
    for chat in (False, True):
        (choice,) = read(Chunks(ask(chat=chat, named=True)).piece(0, piece, 1))["choices"]
        assert "\u00e9" in json.dumps(choice["logprobs"], ensure_ascii=False)


def test_the_last_chunk_has_no_choice_but_all_counts() -> None:
    counts = Counts(3, 2, 4, Speculation(2, 8, 3, (2, 1)))
    said = read(Chunks(ask(usage=True)).usage(counts))
    assert said["choices"] == []
    assert said["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert said["usage"]["speculative"]["accepted_per_position"] == [2, 1]
