"""The one voice of the CLI: data on stdout, everything else on stderr. Rich loads on first use."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from ddops.errors import DdopsError, UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress as Bars

    from ddops.flows.voice import Measure
    from ddops.host.base import Progress


class Output:
    """`result` is data; `say`, `detail`, `warn` and `step` tell the user what happens."""

    def __init__(self, *, json: bool = False, quiet: bool = False, verbose: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.verbose = verbose

    def result(self, data: object, human: RenderableType) -> None:
        """The answer of the command: `data` with `--json`, else `human`. Both on stdout."""
        if self.json:
            write(sys.stdout, json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False))
        else:
            console(sys.stdout).print(human, markup=False, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        if not self.quiet:
            write(sys.stderr, text)

    def show(self, drawn: RenderableType) -> None:
        """Something longer that is no result, such as a plan before its question."""
        if not self.quiet:
            console(sys.stderr).print(drawn, markup=False, highlight=False)

    def detail(self, text: str) -> None:
        if self.verbose:
            write(sys.stderr, text)

    def warn(self, text: str) -> None:
        write(sys.stderr, f"warning: {text}")

    @contextmanager
    def step(self, title: str, *, of: Measure = "items") -> Iterator[Progress]:
        """A bar on a terminal; elsewhere one line at the end. Quiet shows neither."""
        began = time.monotonic()
        if self.quiet or not sys.stderr.isatty():
            yield lambda done, total: None
        else:
            with _bars(of) as bars:
                task = bars.add_task(title, total=None, count="")
                yield lambda done, total: bars.update(
                    task, completed=done, total=total, count=f"{done:g}/{total:g}" if total else ""
                )
        self.say(f"  {title} ({time.monotonic() - began:.1f} s)")

    def confirm(self, question: str, *, yes: bool) -> bool:
        """Ask on the terminal. `--yes` answers; no terminal and no `--yes` is refused."""
        if yes:
            return True
        if not sys.stdin.isatty():
            raise UsageError(
                f"this is not a terminal, so nobody can answer: {question}",
                hint="run the same command with `--yes`",
            )
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> RenderableType:
    """A plain table; the columns named in `right` hold numbers."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    return drawn


def explain(error: DdopsError) -> str:
    """The text of an error: what went wrong, what is known of it, what to type next."""
    parts = [f"error: {error.subject}"]
    if error.detail:
        parts.append(error.detail.rstrip())
    if error.hint:
        parts += ["", f"hint: {error.hint}"]
    return "\n".join(parts)


def fail(error: DdopsError) -> None:
    write(sys.stderr, explain(error))


def write(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def console(stream: TextIO) -> Console:
    """Off a terminal tables are as wide as their content: a pipe has no edge to wrap at."""
    from rich.console import Console

    width = None if stream.isatty() or "COLUMNS" in os.environ else 200
    return Console(file=stream, width=width)


def _bars(of: Measure) -> Bars:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    counts = (
        (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        if of == "bytes"
        else (TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    )
    return Progress(
        TextColumn("  {task.description}", markup=False),
        BarColumn(),
        *counts,
        console=console(sys.stderr),
        transient=True,
    )
