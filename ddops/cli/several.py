"""Several boxes at once: the same command line, in a process of its own for each box.

So what happens to one is no business of the others: an error, a hang, a bug, even Ctrl-C ends each
as if it had run alone. What they say is shown as it comes, each line with its box.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn

import typer

from ddops.cli.output import Output, table, write

if TYPE_CHECKING:
    from rich.console import RenderableType

DEFAULT = "local"


@dataclass(frozen=True)
class Outcome:
    box: str
    exit_code: int
    result: Any  # what it printed as JSON; None: nothing
    error: str | None  # as it was told: subject, detail, hint

    def summary(self, line: Callable[[Any], str]) -> str:
        if self.error:
            return self.error.splitlines()[0]
        return "" if self.result is None else line(self.result)


def one(boxes: Sequence[str] | None) -> str:
    return boxes[0] if boxes else DEFAULT


def several(boxes: Sequence[str] | None) -> tuple[str, ...]:
    """The boxes that are meant; empty when it is one, by its own name."""
    from ddops.spec.groups import expand

    given = tuple(boxes or (DEFAULT,))
    found = expand(given)
    return () if len(found) == 1 and found == given else found


def each(verb: str, boxes: Sequence[str], options: Sequence[str], out: Output) -> list[Outcome]:
    """Run `ddops VERB BOX` for every box at the same time; the outcomes in the order of `boxes`."""
    return at_once([(verb, box, *options) for box in boxes], out)


def at_once(lines: Sequence[Sequence[str]], out: Output) -> list[Outcome]:
    """Run `ddops` with every one of these lines, VERB BOX and options, at the same time."""
    if not lines:
        return []
    manner = [
        "--json",
        *(["--quiet"] if out.quiet else []),
        *(["--verbose"] if out.verbose else []),
    ]
    width = max(len(line[1]) for line in lines)
    with ExitStack() as opened, ThreadPoolExecutor(len(lines)) as pool:
        outputs = [opened.enter_context(tempfile.TemporaryFile()) for _ in lines]
        pairs = zip(lines, outputs, strict=True)
        children = [_Child([*line, *manner], output, width) for line, output in pairs]
        try:
            return list(pool.map(_Child.wait, children))
        except BaseException:
            for child in children:
                child.interrupt()
            raise


def waiting(lock_wait: float, *, dry_run: bool = False) -> list[str]:
    """The options of a verb that changes a box, passed on to each."""
    return ["--lock-wait", str(lock_wait), *(["--dry-run"] if dry_run else [])]


def show(out: Output, outcomes: Sequence[Outcome], line: Callable[[Any], str]) -> NoReturn:
    """A table, or with `--json` a list; the exit code is the worst."""
    data = [
        {"box": o.box, "exit_code": o.exit_code, "result": o.result, "error": o.error}
        for o in outcomes
    ]
    out.result(data, draw(outcomes, line))
    raise typer.Exit(max((outcome.exit_code for outcome in outcomes), default=0))


def draw(outcomes: Sequence[Outcome], line: Callable[[Any], str]) -> RenderableType:
    rows = [(o.box, str(o.exit_code), o.summary(line)) for o in outcomes]
    return table(("box", "exit", "result"), rows, right=("exit",))


class _Child:
    """`output` is a file: a pipe would fill while nobody reads it."""

    def __init__(self, words: Sequence[str], output: IO[bytes], width: int) -> None:
        self.box, self.output, self.width = words[1], output, width
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ddops", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # the terminal's Ctrl-C reaches us, and we pass it on once
        )

    def wait(self) -> Outcome:
        assert self.process.stderr, "it was asked for"
        said: list[str] = []
        with self.process.stderr:
            for line in self.process.stderr:
                said.append(line.rstrip("\n"))
                write(sys.stderr, f"{self.box:<{self.width}} | {said[-1]}".rstrip())
        code = self.process.wait()
        code = code if code >= 0 else 128 - code  # as a shell says it: a signal is no success
        self.output.seek(0)
        text = self.output.read()
        return Outcome(self.box, code, json.loads(text) if text else None, _error(said, code))

    def interrupt(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)


def _error(said: Sequence[str], code: int) -> str | None:
    """What the command line told last, from the word `error:` on."""
    starts = [number for number, line in enumerate(said) if line.startswith("error: ")]
    if starts:
        return "\n".join(said[starts[-1] :]).removeprefix("error: ")
    number = code - 128
    return f"ended by signal {number}" if number > 0 and number != signal.SIGINT else None
