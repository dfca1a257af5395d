"""`ddops crosscheck`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.options import Json
from ddops.cli.output import Output, table
from ddops.errors import UsageError
from ddops.spec.tool import Tool

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.analysis.crosscheck import Crosscheck
    from ddops.flows.crosscheck import Kept

File = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="What sglang, vllm or aiperf wrote of its run."),
]
RunFolder = Annotated[Path | None, typer.Option(help="A run's folder; without it the last one.")]
Cell = Annotated[
    str | None, typer.Option(help="Beside this cell, e.g. `ar.c4.r1`; else by its load.")
]
As = Annotated[Tool | None, typer.Option("--as", help="Whose file it is, where it does not show.")]
Version = Annotated[str | None, typer.Option(help="Of a tool whose file does not say.")]
Program = Annotated[
    str | None,
    typer.Option(help="Instead of FILE: run this client (of sglang its Python) on the cell."),
]
Tokenizer = Annotated[
    str, typer.Option(help="With --program: the folder of a tokenizer, which it wants.")
]
Box = Annotated[str, typer.Option(help="With --program: whose service it asks.")]


def crosscheck(
    file: File = None,
    run: RunFolder = None,
    cell: Cell = None,
    tool: As = None,
    tool_version: Version = None,
    program: Program = None,
    tokenizer: Tokenizer = "",
    box: Box = "local",
    json: Json = False,
) -> None:
    """Put what another load client measured beside a cell.

    It stays with the run, whose report then shows both, with what the other one defines otherwise.

    \b
    Example:
      ddops crosscheck vllm-c4.json --tool-version 0.33.0 --cell ddtree-b8.c4.r1
      ddops crosscheck --program .venv-vllm/bin/vllm --as vllm --tokenizer tok --cell ar.c4.r1
    """
    from ddops.flows import crosscheck as flow
    from ddops.flows import generator
    from ddops.flows.site import opened

    out = Output(json=json)
    if file is not None and program is None:
        kept = flow.crosscheck(flow.Wanted(file, run, cell, tool, tool_version))
    elif file is None and program and tool and cell and tokenizer:
        by = generator.Generator(tool, program, tokenizer, tool_version)
        with opened(box) as site:
            kept = generator.measure(site, run, cell, by, out)
    else:
        raise UsageError(
            "name the FILE of another client, or `--program` with `--as`, `--tokenizer`, `--cell`",
            hint="`ddops crosscheck --help`",
        )
    _show(kept, out)


def _show(kept: Kept, out: Output) -> None:
    out.result(_data(kept.found), _draw(kept.found))
    for line in kept.found.otherwise:
        out.warn(f"not the same load: {line}")
    out.say(f"kept: {kept.path}" if kept.new else f"nothing to change: it lay in {kept.path}")


def _data(found: Crosscheck) -> dict[str, object]:
    lines = [
        {**asdict(line), "difference": line.difference, "verdict": line.verdict}
        for line in found.lines
    ]
    return {
        "cell": found.cell,
        "lines": lines,
        "not_the_same_load": found.otherwise,
        "result": found.result.model_dump(mode="json"),
    }


def _draw(found: Crosscheck) -> RenderableType:
    rows = [
        (
            line.metric,
            f"{line.ours:.4g}",
            f"{line.theirs:.4g}",
            f"{100 * line.difference:+.1f} %",
            line.verdict,
        )
        for line in found.lines
    ]
    columns = ("figure", found.cell, found.client, "difference", "")
    return table(columns, rows, right=columns[1:4])
