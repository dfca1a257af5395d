"""`ddops logs`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

from ddops.cli.options import BoxName
from ddops.cli.output import Output


def logs(
    box: BoxName = "local",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="How many to begin with.")
    ] = 50,
) -> None:
    """Print what the service wrote.

    Followed, a box that reboots is waited for. Ctrl-C ends the following, not the service.

    \b
    Example:
      ddops logs local -f
    """
    from ddops.flows import logs as flow
    from ddops.flows.site import opened

    with opened(box) as site:
        texts = flow.follow(site, lines, Output()) if follow else [flow.log_tail(site, lines)]
        with suppress(KeyboardInterrupt):  # the way to end it, so no error
            for text in texts:
                sys.stdout.write(text)
                sys.stdout.flush()
