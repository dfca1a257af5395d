"""Problems are asked, answers become programs, and only what passes its own tests is solved."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ddops.bench import coding
from ddops.bench.coding import Problem, load_problems
from ddops.errors import SpecError
from ddops.host import sandbox
from ddops.host.sandbox import Limits, Ran
from ddops.spec.matrix import CodingAsked
from ddops.spec.record import Coding, Solved

needs_sandbox = pytest.mark.skipif(
    sandbox.missing() is not None, reason=f"no sandbox here: {sandbox.missing()}"
)
FIVE = load_problems(CodingAsked())
DOUBLE = Problem(
    task_id="one",
    prompt='from math import floor\n\n\ndef double(x: int) -> int:\n    """Twice x."""\n',
    entry_point="double",
    test="def check(candidate):\n    assert candidate(2) == 4, 'two'\n",
)
WHOLE = "def double(x):\n    return floor(2 * x)\n"


def fenced(code: str) -> str:
    return f"Here it is:\n\n```python\n{code}```\nIt doubles."


@needs_sandbox
def test_the_five_shipped_problems_are_solved_by_their_own_solutions() -> None:
    answers = [fenced(one.prompt + one.canonical_solution) for one in FIVE.problems]
    found = coding.judged(FIVE, answers, sandbox.run)
    assert [one.why for one in found.solved] == [""] * 5
    assert (found.passed, found.pass_at_1) == (5, 1.0)
    assert (found.problems, found.problems_sha256) == ("five", FIVE.sha256)


@needs_sandbox
def test_a_function_that_does_nothing_solves_none_of_them() -> None:
    answers = [fenced(f"{one.prompt}    return None\n") for one in FIVE.problems]
    found = coding.judged(FIVE, answers, sandbox.run)
    assert found.passed == 0
    assert all("Error" in one.why for one in found.solved)


@pytest.mark.parametrize(
    "answer",
    [
        fenced(WHOLE),
        WHOLE,
        fenced("x = 1\n") + fenced(WHOLE),
        f"```python\n{WHOLE}",  # cut off at its last token
        "    return floor(x * 2)\n",
        fenced("    return floor(x * 2)\n"),
    ],
    ids=["a block", "bare code", "the second block", "no end", "a body", "a body in a block"],
)
@needs_sandbox
def test_code_is_found_however_it_is_given(answer: str) -> None:
    assert coding.judge(answer, DOUBLE, sandbox.run, Limits()) == Solved(
        id="one", passed=True, why=""
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (" \n", "no answer"),
        ("...", "AssertionError: two"),
        (fenced("def double(x):\n    return 5\n"), "AssertionError: two"),
        ("I cannot do that.", "SyntaxError"),
        (fenced(WHOLE + "import sys\nsys.exit(0)\n"), "ended before its tests did"),
        (fenced("import os\n" + WHOLE + "os._exit(0)\n"), "ended before its tests did"),
        (fenced("def check(f): pass\n" + WHOLE.replace("2", "3")), "AssertionError: two"),
    ],
)
@needs_sandbox
def test_what_does_not_pass_says_why(answer: str, why: str) -> None:
    told = coding.judge(answer, DOUBLE, sandbox.run, Limits())
    assert not told.passed
    assert why in told.why


def test_an_answer_that_never_ends_is_not_solved() -> None:
    told = coding.judge(WHOLE, DOUBLE, lambda program, limits: Ran(None, ""), Limits(wall_s=3))
    assert told == Solved(id="one", passed=False, why="not done after 3 s")


def test_fewer_than_wanted_make_the_gate_red_and_name_the_first() -> None:
    solved = [Solved(id="a", passed=True, why=""), Solved(id="b", passed=False, why="TypeError")]
    found = Coding(problems="p", problems_sha256="0" * 64, solved=tuple(solved))
    (red,) = coding.gates(found, CodingAsked(at_least=2))
    assert not red.green
    assert red.detail == "1 of 2 solved, at least 2 wanted; b: TypeError"
    (green,) = coding.gates(found, CodingAsked(at_least=1))
    assert green.green
    assert coding.gates(found, CodingAsked()) == ()


def test_a_file_of_humanevals_shape_is_read_packed_or_not(tmp_path: Path) -> None:
    line = DOUBLE.model_dump_json() + "\n"
    plain, packed = tmp_path / "Mine.jsonl", tmp_path / "Mine.jsonl.gz"
    plain.write_text(line + "\n" + line)
    packed.write_bytes(gzip.compress((line * 3).encode()))
    assert len(load_problems(CodingAsked(problems=str(plain))).problems) == 2
    found = load_problems(CodingAsked(problems=str(packed), first=2))
    assert (found.id, len(found.problems)) == ("Mine", 2)


def test_a_wrong_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(DOUBLE.model_dump_json() + '\n{"task_id": "x"}\n')
    with pytest.raises(SpecError, match=r"p\.jsonl:2: prompt: field required"):
        load_problems(CodingAsked(problems=str(path)))
    with pytest.raises(SpecError, match="no problems at none") as told:
        load_problems(CodingAsked(problems="none"))
    assert "`five`" in str(told.value.hint)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(SpecError, match="holds no problem"):
        load_problems(CodingAsked(problems=str(tmp_path / "empty.jsonl")))
