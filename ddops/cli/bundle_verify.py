"""`ddops bundle verify`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddops.cli.options import BundlePath, Json, Quiet, Verbose
from ddops.cli.output import Output
from ddops.spec.level import ALONE, TOLERANCE, Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddops.bundle.bag import Finding
    from ddops.bundle.signature import Signed
    from ddops.errors import DdopsError
    from ddops.flows.bundle_verify import Verified

Signers = Annotated[
    Path | None,
    typer.Option(
        "--signers",
        metavar="FILE",
        help="Names and keys, as in ssh-keygen(1); one of them must have signed.",
    ),
]
Up = Annotated[
    Level,
    typer.Option(
        "--level",
        help="L0 structure, L1 hashes, L2 signature, L3 numbers, L4 the box, "
        "L5 a replay's numbers, L6 a replay's answers.",
    ),
]
OfBox = Annotated[str, typer.Option("--box", metavar="BOX", help="For L4: the box to compare.")]
OfReplay = Annotated[
    Path | None, typer.Option("--replay", metavar="BUNDLE", help="For L5 and L6: a replay of it.")
]
Tolerance = Annotated[
    float,
    typer.Option("--tolerance", min=0, help="For L5: how far a number may be off, 0.1 is a tenth."),
]


def verify(
    path: BundlePath,
    level: Up = ALONE,
    signers: Signers = None,
    box: OfBox = "local",
    replay: OfReplay = None,
    tolerance: Tolerance = TOLERANCE,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Hash every file, derive every number again, check who signed; compare with a box, a replay.

    Exit code 10: the bundle has a fault. 5: the box is another one. 12: the replay came out
    otherwise.

    \b
    Example:
      ddops bundle verify results/bundles/local-demo-1a2b3c4d.tar.zst
      ddops bundle verify run.tar.zst --signers ~/.ssh/allowed_signers
      ddops bundle verify run.tar.zst --level L4 --box b300
      ddops bundle verify run.tar.zst --level L6 --replay again.tar.zst
    """
    from ddops.flows.bundle_levels import Beyond, check

    out = Output(json=json, quiet=quiet, verbose=verbose)
    seen = check(path, signers, level, Beyond(box, replay, tolerance))
    for note in seen.notes:
        out.warn(note)
    if json or not seen.findings:
        data = {"ok": not seen.findings, **dataclasses.asdict(seen), "levels": seen.levels}
        out.result(data, _verdict(seen))
    if seen.findings:
        raise fault(path, seen.findings)


def fault(path: Path, found: Sequence[Finding]) -> DdopsError:
    """What is wrong, with the exit code of whatever is at fault."""
    from ddops.flows.bundle_levels import error

    kind, count = error(found), len(found)
    said, thing, hint = _WORDS[kind.__name__]
    detail = "\n".join(f"{one.level} {one}" for one in found)
    counted = f"{count} {thing if count == 1 else f'{thing}s'}"
    return kind(f"{path} {said}: {counted}", detail=detail, hint=hint)


def signed_by(signed: Sequence[Signed]) -> str:
    if not signed:
        return "signed by nobody"
    return "\n".join(
        f"signed by {one.by} with {one.key}"
        if one.by
        else f"signed with {one.key}; whose that is, a file of `--signers` says"
        for one in signed
    )


def _verdict(seen: Verified) -> str:
    holding = ", ".join(level for level, said in seen.levels.items() if said == "holds")
    numbers = f", the numbers of {seen.derived} of {seen.records} records derived again and equal"
    return (
        f"{seen.name}: {seen.files} files as packed{numbers if seen.derived else ''}\n"
        f"{signed_by(seen.signed)}\n"
        f"holds: {holding}"
    )


_WORDS = {
    "BundleError": (
        "is not what it claims to be",
        "fault",
        "get it again from where it came; its numbers prove nothing",
    ),
    "CheckError": (
        "was measured on another kind of box",
        "difference",
        "`ddops bundle replay` makes its packages again, or says why they cannot be",
    ),
    "ClaimsError": (
        "is not borne out by its replay",
        "difference",
        "`ddops bundle diff` lists what else is not the same on both sides",
    ),
}
