"""Gates: what is garbage, what is lossless, and when nobody else was served."""

from __future__ import annotations

import hashlib
import json

import pytest

from ddops.bench import quality
from ddops.bench.counters import Speculation
from ddops.bench.parting import Parting, parting
from ddops.bench.stream import Transcript
from ddops.spec.record import Trace

ANSWER = """Here is a function:

```python
def triangular(n):
    return n * (n + 1) // 2
```

--------------------
| n | value |
| 1 | 1     |
"""
FINE = Speculation(100, 800, 250, (), 350)


def trace(prompt: str, text: str, error: str | None = None, tokens: int = 1) -> Trace:
    return Trace(
        prompt=prompt,
        sent=0.0,
        first=0.1,
        last=0.2,
        chunks=(),
        prompt_tokens=1,
        completion_tokens=tokens,
        finish_reason="stop",
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        error=error,
    )


@pytest.mark.parametrize(
    "text",
    [
        ANSWER,
        "Paris.",
        "= " * 8 + ANSWER,
        "日本語の答えです。カタカナも、漢字も、" * 3,
        "ok " * 10,
        "In Russian one says «спасибо», in Chinese 谢谢, and in English thank you very much.",
    ],
)
def test_language_and_code_are_not_garbage(text: str) -> None:
    assert quality.fault_of(text) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (" \n", "empty"),
        ("!" * 96, "one token repeated"),
        ("Sure. " + "abc" * 40, "one token repeated"),
        ("understanding " * 40, "a few words repeated"),
        ("understanding the " * 20, "a few words repeated"),
        (" ".join(f"{n % 4:02b}{n % 3:03b}" for n in range(40)), "a few symbols repeated"),
        ("rand слово 字文 كلمة शब्द את word مرة еще 語彙 mix दो", "a mix of many scripts"),
        ("a�" * 40, "not text"),
        ("\x00\x01\x02 ok", "not text"),
    ],
)
def test_garbage_is_told_by_its_kind(text: str, fault: str) -> None:
    assert quality.fault_of(text) == fault


def test_one_looping_answer_of_many_is_not_a_broken_engine() -> None:
    assert quality.garbage([ANSWER] * 9 + ["!" * 96], FINE).green


def test_many_garbage_answers_are() -> None:
    gate = quality.garbage([ANSWER] * 2 + ["!" * 96] * 2, FINE)
    assert not gate.green
    assert gate.detail == "2 of 4 answers are garbage, most often one token repeated"


def test_drafting_without_any_success_is_red_whatever_the_text() -> None:
    gate = quality.garbage([ANSWER] * 4, Speculation(200, 6400, 1, (), 201))
    assert not gate.green
    assert "accept collapsed" in gate.detail


@pytest.mark.parametrize(
    "counted",
    [
        Speculation(200, 0, 0, (), 200),
        Speculation(20, 640, 0, (), 20),
        Speculation(None, None, None, (), None),
    ],
    ids=["autoregressive", "too few steps to tell", "no counters"],
)
def test_accept_of_one_is_only_red_while_drafting(counted: Speculation) -> None:
    assert quality.garbage([ANSWER], counted).green


def test_in_float32_every_answer_has_to_be_that_of_ar() -> None:
    base = [trace("a", "1"), trace("b", "2")]
    assert quality.lossless(base, base, exact=True).green
    gate = quality.lossless([trace("a", "1"), trace("b", "3")], base, exact=True)
    assert (gate.green, gate.detail) == (False, "1 of 2 answers equal to `ar`")


@pytest.mark.parametrize(
    ("tokens", "equal", "green"), [(20, 11, True), (20, 10, False), (96, 1, True), (96, 0, False)]
)
def test_in_bfloat16_as_many_are_wanted_as_rounding_leaves(
    tokens: int, equal: int, *, green: bool
) -> None:
    """Of 20 answers 0.97 ** 20 = 0.54 stay whole, of 96 tokens 0.97 ** 96 = 0.05."""
    base = [trace(str(n), str(n), tokens=tokens) for n in range(20)]
    got = [trace(str(n), str(n) if n < equal else "other") for n in range(20)]
    gate = quality.lossless(got, base, exact=False)
    assert gate.green == green
    assert gate.detail.startswith(f"{equal} of 20 answers equal to `ar`; at least ")


def test_long_answers_cannot_be_told_from_flips_in_bfloat16() -> None:
    base = [trace("a", "1", tokens=500)]
    gate = quality.lossless([trace("a", "2")], base, exact=False)
    assert gate.green
    assert "0 of 1 answers equal to `ar`; at least 0 wanted" in gate.detail


def test_answers_that_nobody_can_compare_are_not_called_lossless() -> None:
    assert not quality.lossless([trace("a", "1")], None, exact=True).green
    assert not quality.lossless([trace("a", "1")], [trace("b", "1")], exact=True).green
    assert not quality.lossless([trace("a", "1", error="x")], [trace("a", "1")], exact=True).green


def marked(prompt: str, *chunks: tuple[int, str]) -> Trace:
    """Of (tokens, text) chunks, as a client marks them."""
    said = Transcript(prompt)
    said.sent, total = 0.0, 0
    for tokens, text in (*chunks, (0, "")):
        total += tokens
        choice = {"delta": {"content": text}, "finish_reason": None if tokens else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": total}
        said.feed(f"data: {json.dumps({'choices': [choice], 'usage': usage})}\n".encode(), 0.1)
    said.end(0.2)
    return said.trace(0.0)


def test_where_two_answers_part_is_told_as_sharply_as_their_chunks_allow() -> None:
    ar = marked("p", *((1, f" w{n}") for n in range(6)))
    tree = marked("p", (1, " w0"), (2, " w1 w2"), (3, " w3 x w5"))
    chain = marked("p", (1, " w0"), (1, " x"))
    short = marked("p", (1, " w0"), (2, " w1 w2"))
    assert parting(tree, ar) == Parting("p", 4, 6)
    assert parting(chain, ar) == Parting("p", 2, 2)
    assert parting(short, ar) == Parting("p", 4, 4)
    assert parting(trace("p", "1"), ar) is None
    gate = quality.lossless([tree, marked("q", (2, "a"))], [ar, marked("q", (2, "a"))], exact=True)
    assert gate.detail == (
        "1 of 2 answers equal to `ar`; the earliest to differ is `p` within tokens 4 to 6"
    )


def test_tokens_that_the_client_did_not_get_were_for_somebody_else() -> None:
    def generated(count: int | None) -> Speculation:
        return Speculation(1, 1, 1, (), count)

    alone, crowded = quality.alone(1000, generated(1010)), quality.alone(1000, generated(1300))
    assert alone is not None and alone.green
    assert crowded is not None and not crowded.green
    assert crowded.detail == "1300 tokens generated, 1000 received"
    assert quality.alone(1000, generated(None)) is None
