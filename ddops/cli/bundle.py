"""`ddops bundle` and its verbs: `create`, `sign`, `show`, `diff` and `extract` are here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.bundle_replay import replay
from ddops.cli.bundle_shelf import pull, push
from ddops.cli.bundle_verify import verify
from ddops.cli.options import BundlePath, Json, Quiet, Verbose
from ddops.cli.output import Output, table
from ddops.cli.report import RunDir

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.bundle import Shown

bundle = typer.Typer(
    name="bundle",
    help="Archive a run so that anyone can check and repeat it.",
    no_args_is_help=True,
)

Out = Annotated[
    Path | None,
    typer.Option("--out", help="The folder to put it in; default `bundles/` beside it."),
]
Into = Annotated[Path, typer.Option("--out", help="The folder to put its folder in.")]
Key = Annotated[
    Path,
    typer.Option(
        "--key", metavar="FILE", help="An SSH key (public: the agent signs), or ed25519 in PEM."
    ),
]


@bundle.command()
def create(
    run_dir: RunDir = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Pack a run: a folder and the same as `.tar.zst`, without secrets. The same run, same bytes.

    \b
    Example:
      ddops bundle create
      ddops bundle create results/local-1a2b3c4d --out ~/bundles
    """
    from ddops.flows.bundle import create as pack

    said = Output(json=json, quiet=quiet, verbose=verbose)
    made = pack(run_dir, out, said)
    said.say(f"sha256 of the tar: {made.tar_sha256}")
    for kind, count in made.redacted.items():
        said.say(f"taken out: {count} x {kind}")
    data = {
        "archive": str(made.archive),
        "folder": str(made.folder),
        "tar_sha256": made.tar_sha256,
        "redacted": dict(made.redacted),
    }
    said.result(data, str(made.archive))


@bundle.command()
def sign(
    path: BundlePath, key: Key, json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """Vouch for a bundle: sign its hashes, once it has passed its own check.

    \b
    Example:
      ddops bundle sign results/bundles/local-demo-1a2b3c4d.tar.zst --key ~/.ssh/id_ed25519
    """
    from ddops.flows.bundle import sign as vouch

    out = Output(json=json, quiet=quiet, verbose=verbose)
    changed = vouch(path, key)
    if not changed:
        out.say("nothing to change: this key has signed it already")
    out.result({"bundle": str(path), "changed": changed}, str(path))


bundle.command()(verify)
bundle.command()(replay)
bundle.command()(push)
bundle.command()(pull)


@bundle.command()
def show(
    path: BundlePath, json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """Say on one screen what a bundle holds, what it claims, and how to repeat it.

    \b
    Example:
      ddops bundle show results/bundles/local-demo-1a2b3c4d.tar.zst
    """
    from ddops.flows.bundle import show as look

    out = Output(json=json, quiet=quiet, verbose=verbose)
    seen = look(path)
    data = {
        **seen.info.model_dump(mode="json"),
        "cells": dict(seen.tally),
        "claims": [{"text": claim.text, "records": claim.records} for claim in seen.claims],
        "files": seen.files,
        "bytes": seen.size,
        "redactions": seen.redactions,
        "signed": [one.key for one in seen.signed],
    }
    out.result(data, _screen(seen))


@bundle.command()
def diff(one: BundlePath, other: BundlePath, json: Json = False) -> None:
    """Say where two bundles differ: ddops, matrix, deployment, model, box, packages, results.

    \b
    Example:
      ddops bundle diff yesterday.tar.zst today.tar.zst
    """
    from ddops.flows.bundle_diff import diff as compare

    out = Output(json=json)
    seen = compare(one, other)
    rows = [(each.subject, each.what, each.wanted, each.there) for each in seen.found]
    names = (seen.one, seen.other) if seen.one != seen.other else (str(one), str(other))
    human = table(("subject", "what", *names), rows) if rows else "no difference"
    out.result([each.model_dump() for each in seen.found], human)


@bundle.command()
def extract(path: BundlePath, out: Into = Path(), json: Json = False, quiet: Quiet = False) -> None:
    """Unpack an archive, if all its hashes are right; `tar --zstd -xf` asks no such questions.

    \b
    Example:
      ddops bundle extract local-demo-1a2b3c4d.tar.zst --out elsewhere
    """
    from ddops.flows.extract import extract as unpack

    said = Output(json=json, quiet=quiet)
    made = unpack(path, out)
    if not made.changed:
        said.say("nothing to change: it lies there already")
    said.result({"folder": str(made.folder), "changed": made.changed}, str(made.folder))


def _screen(seen: Shown) -> RenderableType:
    from ddops.bundle.contents import REPLAY

    tally = ", ".join(f"{count} {word}" for word, count in seen.tally.items())
    rows = [
        ("bundle", seen.info.name),
        ("measured", f"{seen.info.created}, commit {seen.info.commit or 'of the release'}"),
        ("packed by", f"ddops {seen.info.ddops_version}"),
        ("box", seen.info.box),
        *([("replay of", seen.info.based_on.name)] if seen.info.based_on else []),
        ("model", seen.run.found.model.name),
        ("cells", tally),
        *[("claim", claim.text) for claim in seen.claims],
        ("holds", f"{seen.files} files, {seen.size / 1e6:.1f} MB, {seen.redactions} redactions"),
        ("signed", ", ".join(one.key for one in seen.signed) or "by nobody"),
        ("repeat", f"in its folder: {REPLAY}"),
    ]
    return table(("", ""), rows)
