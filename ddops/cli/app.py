"""The command line: verbs in the order of work, and the one place where errors become words."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Annotated, Final

import typer

from ddops import __version__
from ddops.cli.bench import BenchCommand, bench
from ddops.cli.bundle import bundle
from ddops.cli.check import check
from ddops.cli.claims import claims
from ddops.cli.compare import compare
from ddops.cli.crosscheck import crosscheck
from ddops.cli.deploy import deploy
from ddops.cli.diff import diff
from ddops.cli.env import env
from ddops.cli.estimate import estimate
from ddops.cli.explain import explain
from ddops.cli.history import history
from ddops.cli.init import init
from ddops.cli.inspect import inspect
from ddops.cli.logs import logs
from ddops.cli.model import model
from ddops.cli.output import fail, write
from ddops.cli.plan import plan
from ddops.cli.report import report
from ddops.cli.restart import restart
from ddops.cli.rollback import rollback
from ddops.cli.search import search
from ddops.cli.status import status
from ddops.cli.stop import stop
from ddops.errors import DdopsError, UsageError

VERBS: Final[tuple[Callable[..., None] | typer.Typer, ...]] = (
    init,
    inspect,
    check,
    env,
    model,
    plan,
    explain,
    deploy,
    status,
    diff,
    logs,
    stop,
    restart,
    rollback,
    history,
    bench,
    search,
    crosscheck,
    report,
    estimate,
    compare,
    claims,
    bundle,
)
"""In the order of work. A verb is a function; a verb with verbs of its own is a `typer.Typer`."""

OWN_PARSING: Final = {bench: BenchCommand}

INTERRUPTED: Final = 130

_BAD_USAGE: type[Exception] = typer.BadParameter.__mro__[1]  # typer keeps its base class private

app = typer.Typer(
    name="ddops",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: rich would cost a third of the start time
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        write(sys.stdout, f"ddops {__version__}")
        raise typer.Exit


@app.callback()
def ddops(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """From a bare GPU box to a measured, reproducible DDTree deployment.

    \b
    Example:
      ddops deploy local
      ddops bench local
    """


for verb in VERBS:
    if isinstance(verb, typer.Typer):
        app.add_typer(verb)
    else:
        app.command(cls=OWN_PARSING.get(verb))(verb)


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    sys.excepthook = _unexpected
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="ddops", standalone_mode=False)
    except DdopsError as error:
        fail(error)
        return error.exit_code
    except _BAD_USAGE as mistake:
        fail(_usage(mistake))
        return UsageError.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        _interrupted(sys.argv[1:] if arguments is None else arguments)
    return code if isinstance(code, int) else 0


def _usage(mistake: Exception) -> UsageError:
    context = getattr(mistake, "ctx", None)
    path = context.command_path if context is not None else "ddops"
    text = str(getattr(mistake, "format_message", lambda: str(mistake))())
    text = text.rstrip(".").replace("'", "`")
    return UsageError(text[:1].lower() + text[1:], hint=f"`{path} --help`")


def _interrupted(arguments: list[str]) -> None:
    line = " ".join(["ddops", *arguments])
    write(sys.stderr, f"\ninterrupted; what is done stays done\n\nhint: to continue, `{line}`")


def _unexpected(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A bug in ddops: one line for the user, the traceback for whoever asks for it."""
    if os.environ.get("DDOPS_DEBUG"):
        sys.__excepthook__(kind, error, trace)
        return
    words = DdopsError(
        f"ddops itself failed: {kind.__name__}: {error}",
        hint="run it again with `DDOPS_DEBUG=1` in front to see the traceback, and report it",
    )
    fail(words)
