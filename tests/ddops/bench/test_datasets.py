"""Data sets of the field, in small files of their shape that were made up here."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ddops.bench.prompts import PromptSet, load_prompts
from ddops.errors import SpecError
from ddops.spec.matrix import Load

HUMANEVAL = [
    {
        "task_id": f"Made/{n}",
        "prompt": f"def plus_{n}(x: int) -> int:\n",
        "entry_point": f"plus_{n}",
        "canonical_solution": f"    return x + {n}\n",
        "test": "",
    }
    for n in range(6)
]
GSM8K = [{"question": f"How much is {n} and {n}?", "answer": f"#### {2 * n}"} for n in range(6)]
MT_BENCH = [
    {"question_id": 80 + n, "category": "writing", "turns": [f"Say {n}.", "Again."]}
    for n in range(6)
]
SHAREGPT = [
    {
        "id": f"chat{n}",
        "conversations": [
            {"from": "human", "value": f"Hello {n}"},
            {"from": "gpt", "value": "Hello"},
        ],
    }
    for n in range(6)
]
SPEED_BENCH = [
    {
        "question_id": f"{n:032x}",
        "category": "coding",
        "sub_category": "made-up",
        "messages": [{"role": "user", "content": f"Sort {n} numbers"}],
    }
    for n in range(6)
]
SETS: dict[str, list[dict[str, Any]]] = {
    "humaneval": HUMANEVAL,
    "gsm8k": GSM8K,
    "mt-bench": MT_BENCH,
    "sharegpt": SHAREGPT,
    "speed-bench": SPEED_BENCH,
}


def lines(rows: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, rows))


def read(folder: Path, text: str, **load: Any) -> PromptSet:
    path = folder / "set.jsonl"
    path.write_text(text, "utf-8")
    given = {"requests": 4, "warmup": 0, "max_tokens": 8, **load}
    return load_prompts(Load(prompts=str(path), **given))


@pytest.mark.parametrize(
    ("name", "first", "text"),
    [
        ("humaneval", "Made/0", "Complete this Python function:\n\ndef plus_0(x: int) -> int:\n"),
        ("gsm8k", "1", "How much is 0 and 0?"),
        ("mt-bench", "80", "Say 0."),
        ("sharegpt", "chat0", "Hello 0"),
        ("speed-bench", "0" * 32, "Sort 0 numbers"),
    ],
)
def test_each_is_recognised_and_asks_its_first_turn(
    tmp_path: Path, name: str, first: str, text: str
) -> None:
    found = read(tmp_path, lines(SETS[name]))
    assert (found.prompts[0].id, found.prompts[0].text) == (first, text)
    assert len(found.prompts) == 6
    assert found == read(tmp_path, lines(SETS[name]), format=name)


@pytest.mark.parametrize("name", SETS)
def test_a_list_of_rows_and_a_single_row_are_read_too(tmp_path: Path, name: str) -> None:
    assert len(read(tmp_path, json.dumps(SETS[name], indent=1)).prompts) == 6
    assert len(read(tmp_path, json.dumps(SETS[name][0])).prompts) == 1


def test_the_record_can_name_the_file_and_its_licence(tmp_path: Path) -> None:
    text = lines(GSM8K)
    assert read(tmp_path, text).sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert (read(tmp_path, text).id, read(tmp_path, text).licence) == ("set", "unknown")
    assert read(tmp_path, text, licence="MIT").licence == "MIT"


def test_a_sample_is_drawn_by_the_seed(tmp_path: Path) -> None:
    def drawn(seed: int) -> list[str]:
        found = read(tmp_path, lines(GSM8K), sample=3, seed=seed)
        return [prompt.id for prompt in found.prompts]

    assert drawn(1) == drawn(1)
    assert len(set(drawn(1))) == 3
    assert len({tuple(drawn(seed)) for seed in range(8)}) > 1


def test_prompts_that_are_too_long_are_left_out(tmp_path: Path) -> None:
    rows = [*GSM8K, {"question": "x" * 500, "answer": ""}]
    assert len(read(tmp_path, lines(rows), longest=100).prompts) == 6
    with pytest.raises(SpecError, match="every prompt is longer than 5 characters"):
        read(tmp_path, lines(rows), longest=5)
    with pytest.raises(SpecError, match="7 prompts are to be drawn, but 6 fit"):
        read(tmp_path, lines(rows), longest=100, sample=7)


def test_a_conversation_that_no_person_began_is_left_out(tmp_path: Path) -> None:
    other = {"id": "x", "conversations": [{"from": "gpt", "value": "I begin"}]}
    empty = {"id": "y", "conversations": []}
    assert len(read(tmp_path, lines([*SHAREGPT, other, empty])).prompts) == 6


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([*GSM8K, {"question": "", "answer": ""}], ":7: asks nothing"),
        ([*GSM8K, {"answer": ""}], ":7: key `question` is missing"),
        ([*MT_BENCH, {"question_id": 9, "turns": []}], ":7: asks nothing"),
        ([*MT_BENCH, MT_BENCH[0]], ":7: two prompts have the id `80`"),
        (
            [{"instruction": "x"}, {"instruction": "y"}],
            ":1: is no row of a known data set: its keys are instruction",
        ),
    ],
)
def test_a_wrong_row_is_named_with_its_line(
    tmp_path: Path, rows: list[dict[str, Any]], complaint: str
) -> None:
    with pytest.raises(SpecError) as told:
        read(tmp_path, lines(rows), format=None if "instruction" in rows[0] else _name(rows))
    assert str(tmp_path / "set.jsonl") in told.value.subject
    assert complaint in told.value.subject
    assert "`gsm8k`" in str(told.value.hint)


def _name(rows: list[dict[str, Any]]) -> str:
    return next(name for name, own in SETS.items() if own[0] == rows[0])


def test_a_broken_line_and_a_row_of_a_list_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"set\.jsonl:7: is not JSON"):
        read(tmp_path, lines(GSM8K) + "\n{")
    with pytest.raises(SpecError, match=r"set\.jsonl: row 2: is not an object"):
        read(tmp_path, json.dumps([GSM8K[0], 3]))


def test_speed_bench_before_its_own_script_is_refused(tmp_path: Path) -> None:
    told = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"
    row = {**SPEED_BENCH[0], "messages": [{"role": "user", "content": told}]}
    with pytest.raises(SpecError, match="its text is still at its source"):
        read(tmp_path, lines([row]))
