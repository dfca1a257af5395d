"""When an open loop sends: at random moments of a rate, or at the times of a file."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev

import pytest

from ddops.bench.arrivals import poisson, read_trace
from ddops.errors import SpecError


def trace(folder: Path, *rows: object) -> Path:
    path = folder / "times.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    return path


def test_poisson_arrivals_keep_the_asked_rate_exactly() -> None:
    due = poisson(101, rate=4.0, seed=7)
    assert due[0] == 0.0
    assert due[-1] == pytest.approx(100 / 4.0)
    assert list(due) == sorted(due)


def test_their_gaps_are_as_uneven_as_chance_makes_them() -> None:
    """Exponential gaps have a deviation as large as their mean; even ones would have none."""
    gaps = [b - a for a, b in pairwise(poisson(4001, rate=10.0, seed=1))]
    assert stdev(gaps) == pytest.approx(mean(gaps), rel=0.1)


def test_the_seed_gives_the_same_moments_again() -> None:
    assert poisson(20, 2.0, seed=3) == poisson(20, 2.0, seed=3) != poisson(20, 2.0, seed=4)


def test_a_single_request_is_sent_at_once() -> None:
    assert poisson(1, 5.0, seed=0) == (0.0,)


def test_a_trace_is_ordered_and_begins_at_zero(tmp_path: Path) -> None:
    path = trace(tmp_path, {"at_s": 12.5, "prompt": "b", "max_tokens": 9}, {"at_s": 10.0})
    found = read_trace(path)
    assert [send.at_s for send in found.sends] == [0.0, 2.5]
    assert (found.sends[1].prompt, found.sends[1].max_tokens) == ("b", 9)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_trace_in_milliseconds_with_lengths_is_read_too(tmp_path: Path) -> None:
    path = trace(
        tmp_path,
        {"timestamp": 3000, "input_length": 120, "output_length": 40, "hash_ids": [1, 2]},
        {"timestamp": 4500, "input_length": 7, "output_length": 5, "hash_ids": []},
    )
    first, second = read_trace(path).sends
    assert (first.at_s, first.input_tokens, first.max_tokens) == (0.0, 120, 40)
    assert (second.at_s, second.input_tokens, second.max_tokens) == (1.5, 7, 5)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"at_s": -1}, "at_s: "),
        ({"at": 1}, "at_s: Field required"),
        ({"at_s": 1, "prompt": "x", "input_tokens": 4}, "has both"),
        ({"timestamp": "soon"}, "unsupported operand"),
        (["at_s", 1], "is not an object"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, row: object, complaint: str) -> None:
    path = trace(tmp_path, {"at_s": 0}, row)
    with pytest.raises(SpecError) as told:
        read_trace(path)
    assert told.value.subject.startswith(f"{path}:2: ")
    assert complaint in told.value.subject
    assert told.value.hint


@pytest.mark.parametrize("text", ["", "\n\n", "{"])
def test_a_file_without_requests_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "times.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(SpecError, match=r"times\.jsonl"):
        read_trace(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nowhere\.jsonl cannot be read"):
        read_trace(tmp_path / "nowhere.jsonl")
