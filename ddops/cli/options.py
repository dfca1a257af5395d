"""Options and arguments that mean the same in every verb."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

BoxName = Annotated[
    str, typer.Argument(metavar="[BOX]", help="An inventory by name, or the path of its YAML file.")
]
BoxNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[BOX]...",
        show_default="local",
        help="Inventories by name or path, or groups of them; several are worked on at once.",
    ),
]
Pin = Annotated[
    str | None,
    typer.Option(
        "--pin", metavar="SHA256:…", help="The fingerprint that the box's own key must have."
    ),
]
LockWait = Annotated[
    float,
    typer.Option(
        "--lock-wait",
        metavar="SECONDS",
        min=0,
        help="How long to wait while another ddops is at work on the box.",
    ),
]
Override = Annotated[
    list[str] | None,
    typer.Option(
        "--override", metavar="RULE", help="A rule that must not speak; recorded. Repeatable."
    ),
]
BundlePath = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A `.tar.zst`, or its folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before changing the box.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more about each step.")]
