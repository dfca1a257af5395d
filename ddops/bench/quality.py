"""Gates: is what was measured still the model's answer? Pure; reasons in docs/numbers.md."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from ddops.bench.counters import Speculation
from ddops.bench.parting import parting
from ddops.spec.record import Gate, Trace

GARBAGE_SHARE = 0.25  # of a cell's answers; a small model may loop in one, a broken engine in most
ENOUGH_STEPS = 50  # verify steps below which a low accept says nothing
COLLAPSED = 0.02  # accepted drafts per verify step
KEPT_PER_TOKEN = 0.97
"""Outside float32: the chance that a token is not flipped by rounding, at the least.

Correct engines kept 0.989 to 0.995 a token (bfloat16, CPU) and 0.996 (trees, H200).
"""
ALONE_SHARE = 0.02

FEW_WORDS_BITS = 1.3
FEW_SYMBOLS_BITS = 2.0
"""Prose and code have 5.5 to 6.5 bits a word over a hundred words and 4 to 5 a symbol."""
MANY_SCRIPTS = 4  # in one answer; a translator's has two, seldom three

_UNIT_REPEATED = re.compile(r"(.{1,4}?)\1{15,}", re.DOTALL)
_ENOUGH_WORDS = 24
_ENOUGH_SYMBOLS = 48
_NOTICEABLE = 0.03


def garbage(texts: Sequence[str], counted: Speculation) -> Gate:
    """Red when drafting never succeeds any more, or when too many answers are not language."""
    faults = [fault for fault in map(fault_of, texts) if fault]
    if _collapsed(counted):
        said = f"accept collapsed: {counted.accepted} drafts accepted in {counted.steps} steps"
        return Gate(name="garbage", green=False, detail=said)
    if len(faults) > GARBAGE_SHARE * len(texts):
        worst = Counter(faults).most_common(1)[0][0]
        said = f"{len(faults)} of {len(texts)} answers are garbage, most often {worst}"
        return Gate(name="garbage", green=False, detail=said)
    return Gate(name="garbage", green=True, detail=f"{len(faults)} of {len(texts)} answers")


def fault_of(text: str) -> str | None:
    """What makes an answer garbage: it is nothing, not text, or says one thing over and over."""
    stripped = text.strip()
    if not stripped:
        return "empty"
    strange = sum(not (char.isprintable() or char in "\n\t\r") or char == "�" for char in text)
    if strange > 0.1 * len(text):
        return "not text"
    if max((len(run[0]) for run in _UNIT_REPEATED.finditer(text)), default=0) > 0.5 * len(text):
        return "one token repeated"
    words, symbols = stripped.split(), "".join(stripped.split())
    if len(words) >= _ENOUGH_WORDS and entropy(words) < FEW_WORDS_BITS:
        return "a few words repeated"
    if len(symbols) >= _ENOUGH_SYMBOLS and entropy(symbols) < FEW_SYMBOLS_BITS:
        return "a few symbols repeated"
    return "a mix of many scripts" if len(_scripts(text)) >= MANY_SCRIPTS else None


def entropy(items: Sequence[str]) -> float:
    """Bits an item, by how often each occurs: 0 for one item over and over."""
    counts = Counter(items).values()
    return -sum(n / len(items) * math.log2(n / len(items)) for n in counts)


def _scripts(text: str) -> set[str]:
    """That make up a noticeable part of the letters: random tokens come from everywhere."""
    letters = [char for char in text if char.isalpha()]
    named = Counter(_script(char) for char in letters)
    return {name for name, count in named.items() if count >= _NOTICEABLE * len(letters)}


def _script(char: str) -> str:
    """`LATIN`, `CYRILLIC`; those that one East Asian language mixes count as one."""
    name = unicodedata.name(char, "UNKNOWN").split()[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH") else name


def lossless(traces: Sequence[Trace], baseline: Sequence[Trace] | None, *, exact: bool) -> Gate:
    """Greedy answers have to be those of autoregressive decoding, prompt by prompt.

    `exact` (float32): every one. Otherwise rounding flips near-ties, so only fewer equal answers
    than KEPT_PER_TOKEN leaves over their length are red, and the share itself is always told.
    """
    if baseline is None:
        said = "the matrix has `ar`, but no good record of it at this concurrency to compare with"
        return Gate(name="lossless", green=False, detail=said)
    want = {trace.prompt: trace for trace in baseline if trace.error is None}
    got = [trace for trace in traces if trace.error is None and trace.prompt in want]
    other = [trace for trace in got if trace.text_sha256 != want[trace.prompt].text_sha256]
    equal = len(got) - len(other)
    needed = len(got) if exact else _left_after_rounding([want[trace.prompt] for trace in got])
    said = f"{equal} of {len(got)} answers equal to `ar`"
    if not exact:
        said += f"; at least {needed} wanted, for rounding flips near-ties in this dtype"
    partings = [found for trace in other if (found := parting(trace, want[trace.prompt]))]
    if partings:
        said += f"; the earliest to differ is {min(partings, key=lambda one: one.first)}"
    return Gate(name="lossless", green=bool(got) and equal >= needed, detail=said)


def _left_after_rounding(answers: Sequence[Trace]) -> int:
    """0 for long answers: then this gate cannot tell a flip from a fault."""
    return round(sum(KEPT_PER_TOKEN ** (trace.completion_tokens or 0) for trace in answers))


def alone(received: int, counted: Speculation) -> Gate | None:
    """Red when the engine generated more than this client received: someone else was served."""
    if counted.generated is None:
        return None
    said = f"{counted.generated} tokens generated, {received} received"
    near = abs(counted.generated - received) <= ALONE_SHARE * max(received, 1)
    return Gate(name="alone", green=near, detail=said)


def _collapsed(counted: Speculation) -> bool:
    if not counted.drafted or counted.steps is None or counted.accepted is None:
        return False
    return counted.steps >= ENOUGH_STEPS and counted.accepted < COLLAPSED * counted.steps
