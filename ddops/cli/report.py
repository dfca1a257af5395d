"""`ddops report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddops.cli.options import Json, Quiet, Verbose
from ddops.cli.output import Output

RunDir = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RUN_DIR]",
        help="A run, or a transcript's folder; without it the last run under `results/`.",
    ),
]


def report(
    run_dir: RunDir = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(help="A run or bundle of another box, for the findings; repeatable."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Turn a run's records into a page to read.

    Also as Markdown, and with its findings. A transcript becomes one Markdown file of findings.

    \b
    Example:
      ddops report
      ddops report results/local-1a2b3c4d --beside h200.tar.zst
      ddops report repro/k26-ddtree
    """
    from ddops.flows.findings import findings, is_transcript
    from ddops.flows.report import report as write

    out = Output(json=json, quiet=quiet, verbose=verbose)
    if run_dir is not None and is_transcript(run_dir):
        made = findings(run_dir)
        told = [{"text": one.claim.says, "holds": one.holds} for one in made.found.judged]
        out.result({"markdown": str(made.markdown), "claims": told}, str(made.markdown))
        return
    written = write(run_dir, beside or ())
    for claim in written.view.claims:
        out.say(claim.text)
    data = {
        "html": str(written.html),
        "markdown": str(written.markdown),
        "findings": str(written.findings),
        "cells": dict(written.view.tally),
        "claims": [{"text": claim.text, "records": claim.records} for claim in written.view.claims],
    }
    out.result(data, str(written.html))
