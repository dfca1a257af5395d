"""Shipped prompt sets and a user's own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ddops.bench.prompts import PromptSet, questions, shipped_names, warm_up
from ddops.bench.prompts import load_prompts as loaded
from ddops.errors import SpecError
from ddops.spec.matrix import Load, Pace

LOAD = Load(requests=30, warmup=2, max_tokens=8, seed=100)
ONE = Pace(concurrency=1)
OWN = {"id": "mine", "licence": "CC0-1.0", "prompts": [{"id": "1", "text": "Hello?"}]}


def load_prompts(wanted: str, **changes: Any) -> PromptSet:
    return loaded(LOAD.model_copy(update={"prompts": wanted, **changes}))


def own(folder: Path, text: str) -> str:
    path = folder / "mine.json"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["coding", "chat"])
def test_a_shipped_set_has_licence_and_hash_and_distinct_prompts(name: str) -> None:
    found = load_prompts(name)
    assert (found.id, found.licence) == (name, "Apache-2.0")
    assert len(found.sha256) == 64
    assert len({prompt.text for prompt in found.prompts}) == len(found.prompts) >= 24


def test_there_are_no_other_shipped_sets() -> None:
    assert shipped_names() == ["chat", "coding"]


def test_a_file_of_the_users_own_works(tmp_path: Path) -> None:
    text = json.dumps(OWN)
    found = load_prompts(own(tmp_path, text))
    assert [prompt.text for prompt in found.prompts] == ["Hello?"]
    assert found.sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "Invalid JSON"),
        (json.dumps({**OWN, "prompts": []}), "prompts: "),
        (json.dumps({**OWN, "prompts": [{"id": "1", "txt": "x"}]}), "prompts.0.text: "),
        (json.dumps({k: v for k, v in OWN.items() if k != "licence"}), "licence: Field required"),
        (json.dumps({**OWN, "prompts": [*OWN["prompts"], *OWN["prompts"]]}), "the id `1`"),
    ],
)
def test_a_wrong_file_is_named_with_the_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = own(tmp_path, text)
    with pytest.raises(SpecError) as told:
        load_prompts(path)
    assert path in told.value.subject
    assert complaint in told.value.subject
    assert told.value.hint


def test_a_missing_file_lists_the_shipped_sets() -> None:
    with pytest.raises(SpecError) as told:
        load_prompts("nowhere.json")
    assert told.value.subject == "no prompts at nowhere.json: No such file or directory"
    assert "`chat`, `coding`" in str(told.value.hint)


def test_questions_go_round_the_set_with_seeds_of_their_own() -> None:
    asked = questions(load_prompts("coding"), LOAD, ONE)
    assert len(asked) == 30
    assert asked[24].prompt == asked[0].prompt
    assert [question.seed for question in asked] == list(range(100, 130))


def test_a_closed_loop_may_ask_by_the_stream_and_an_open_one_cannot() -> None:
    load = LOAD.model_copy(update={"requests_a_stream": 4})
    found = load_prompts("coding")
    asked = [len(questions(found, load, Pace(concurrency=streams))) for streams in (1, 8, 64)]
    assert asked == [30, 32, 256]
    assert len(questions(found, load, Pace(arrivals="poisson", rate=2.0))) == 30


def test_warm_up_shares_no_beginning_with_what_is_measured() -> None:
    found = load_prompts("coding")
    measured = {question.text[:4] for question in questions(found, LOAD, ONE)}
    assert not measured & {question.text[:4] for question in warm_up(found, LOAD)}
    assert len(warm_up(found, LOAD)) == 2


def test_at_a_rate_every_question_has_its_time() -> None:
    asked = questions(load_prompts("coding"), LOAD, Pace(arrivals="poisson", rate=2.0))
    assert asked[0].due_s == 0.0
    assert asked[-1].due_s == pytest.approx(29 / 2.0)


def test_a_trace_says_when_and_what_is_asked(tmp_path: Path) -> None:
    rows = [
        {"at_s": 1.0, "prompt": "Mine", "max_tokens": 5},
        {"at_s": 1.5, "input_tokens": 200, "max_tokens": 900},
        {"at_s": 3.0},
    ]
    path = tmp_path / "times.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    found = loaded(LOAD, str(path))
    first, second, third = questions(found, LOAD, Pace(arrivals="trace"))
    assert (first.due_s, first.text, first.max_tokens) == (0.0, "Mine", 5)
    assert (second.due_s, len(second.text), second.max_tokens) == (0.5, 800, LOAD.max_tokens)
    assert (third.due_s, third.text) == (2.0, found.prompts[2].text)
    assert len({first.prompt, second.prompt, third.prompt}) == 3
    assert found.trace_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
