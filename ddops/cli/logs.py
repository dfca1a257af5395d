"""`ddops logs`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

from ddops.cli.options import BoxName


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

    \b
    Example:
      ddops logs local -f
    """
    from ddops.flows import logs as flow
    from ddops.flows.site import opened

    with opened(box) as site:
        texts = flow.follow(site, lines) if follow else [flow.log_tail(site.host, site.box, lines)]
        with suppress(KeyboardInterrupt):  # the way to end it, so no error
            for text in texts:
                sys.stdout.write(text)
                sys.stdout.flush()
