"""Problems whose answers are programs: what is asked, which code is in an answer, does it pass.

The files have HumanEval's shape: one JSON object a line with `task_id`, `prompt` (the head of a
function and its docstring), `entry_point` and `test` (a function `check(candidate)`).
"""

from __future__ import annotations

import gzip
import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from ddops.errors import SpecError
from ddops.host.sandbox import Limits, Ran
from ddops.spec.base import Word
from ddops.spec.complaint import complaint
from ddops.spec.matrix import CodingAsked
from ddops.spec.record import Coding, Gate, Solved

_SHIPPED = Path(__file__).parent / "problems"
_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_ASKED = (
    "Complete this Python function. Answer with the whole function in one block of code, "
    "without examples of its use.\n\n```python\n{head}```"
)

Run = Callable[[str, Limits], Ran]


class Problem(Word):
    task_id: str
    prompt: str = Field(min_length=1)
    entry_point: str = Field(pattern=r"^[A-Za-z_]\w*$")
    test: str
    canonical_solution: str = ""

    @property
    def question(self) -> str:
        return _ASKED.format(head=self.prompt)


@dataclass(frozen=True)
class Problems:
    id: str
    sha256: str  # of the file
    problems: tuple[Problem, ...]


def load_problems(asked: CodingAsked) -> Problems:
    """A shipped set when `asked.problems` is its name, else the file (also .gz) at that path.

    Raises `SpecError` with file and line.
    """
    shipped = _SHIPPED / f"{asked.problems}.jsonl"
    path = shipped if shipped.is_file() else Path(asked.problems)
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, ValueError, EOFError) as wrong:
        names = ", ".join(f"`{each.stem}`" for each in sorted(_SHIPPED.glob("*.jsonl")))
        raise SpecError(
            f"no problems at {asked.problems}: {wrong}",
            hint=f"use {names}, or the path of a file in HumanEval's shape",
        ) from wrong
    lines = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    found = tuple(_problem(path, number, line) for number, line in lines[: asked.first])
    if not found:
        raise SpecError(f"{path} holds no problem", hint="one JSON object a line")
    return Problems(path.name.partition(".")[0], hashlib.sha256(data).hexdigest(), found)


def program_of(answer: str, problem: Problem) -> str:
    """The code of an answer: its block that defines the function, else its first, else itself.

    Code that does not define the function is taken for its body, as a completion would be.
    """
    blocks = _FENCED.findall(answer)
    head = re.compile(rf"^\s*def {problem.entry_point}\b", re.MULTILINE)
    code = next((block for block in blocks if head.search(block)), (blocks or [answer])[0])
    return str(code) if head.search(code) else problem.prompt + str(code)


def judge(answer: str, problem: Problem, run: Run, limits: Limits) -> Solved:
    """By the problem's own tests, after which a word is printed that the answer cannot know."""
    if not answer.strip():
        return Solved(id=problem.task_id, passed=False, why="no answer")
    word = secrets.token_hex(16)
    parts = (
        _imports(problem),
        program_of(answer, problem),
        problem.test,
        f"check({problem.entry_point})",
        f"print({word!r})",
    )
    ran = run("\n\n".join(parts), limits)
    if ran.code is None:
        return Solved(id=problem.task_id, passed=False, why=f"not done after {limits.wall_s:g} s")
    last = (ran.output.strip().splitlines() or ["ended without a word"])[-1]
    if ran.code == 0 and last == word:
        return Solved(id=problem.task_id, passed=True, why="")
    why = last if ran.code != 0 else "ended before its tests did"
    return Solved(id=problem.task_id, passed=False, why=why[:200])


def judged(
    problems: Problems, answers: Sequence[str], run: Run, limits: Limits | None = None
) -> Coding:
    """`answers` in the order of the problems."""
    pairs = zip(answers, problems.problems, strict=True)
    solved = tuple(judge(answer, one, run, limits or Limits()) for answer, one in pairs)
    return Coding(problems=problems.id, problems_sha256=problems.sha256, solved=solved)


def gates(coding: Coding | None, asked: CodingAsked | None) -> tuple[Gate, ...]:
    """Red when fewer are solved than are wanted; none where it does not matter."""
    if coding is None or asked is None or asked.at_least is None:
        return ()
    said = f"{coding.passed} of {len(coding.solved)} solved, at least {asked.at_least} wanted"
    first = next((one for one in coding.solved if not one.passed), None)
    told = f"; {first.id}: {first.why}" if first else ""
    green = coding.passed >= asked.at_least
    return (Gate(name="coding", green=green, detail=said if green else said + told),)


def _imports(problem: Problem) -> str:
    """What stands above the function in its prompt: an answer may leave it out."""
    above = problem.prompt.partition(f"def {problem.entry_point}")[0]
    lines = [line for line in above.splitlines() if re.match(r"(from|import)\s", line)]
    return "\n".join(lines)


def _problem(path: Path, number: int, line: str) -> Problem:
    try:
        return Problem.model_validate_json(line)
    except ValidationError as wrong:
        raise SpecError(
            f"{path}:{number}: {complaint(wrong, 'the line')}",
            hint="a problem is one JSON object with `task_id`, `prompt`, `entry_point` and `test`",
        ) from wrong
