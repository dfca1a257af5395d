"""What a bundle wants of a box to be repeated there: a deployment, and the packages it ran with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddops.spec.bundle import BundleInfo
from ddops.spec.command import Command, Put, Run
from ddops.spec.deployment import Deployment, Weights
from ddops.spec.packages import Environment
from ddops.spec.place import Place

_OWN = "ddops"
"""Brings the engine; installed from an index only where it was measured as released."""


@dataclass(frozen=True)
class Again:
    """An environment that is to be made again, or why it cannot be."""

    python: str  # the interpreter that it will have
    commands: tuple[Command, ...]
    reasons: tuple[str, ...]


def deployment(wanted: Deployment, own: Deployment) -> Deployment:
    """`wanted` as this box can serve it: at its own address, from weights where it has the same.

    `own` is what its inventory says. The environment is a matter of its own.
    """
    model, drafter = wanted.model, wanted.decoding.drafter
    have = [w for w in (own.model.weights, own.decoding.drafter) if isinstance(w, Weights)]
    decoding = wanted.decoding
    if isinstance(drafter, Weights):
        decoding = decoding.model_copy(update={"drafter": _nearer(drafter, have)})
    return wanted.model_copy(
        update={
            "model": model.model_copy(update={"weights": _nearer(model.weights, have)}),
            "decoding": decoding,
            "serving": own.serving,
            "environment": own.environment,
            "ready_timeout_s": max(wanted.ready_timeout_s, own.ready_timeout_s),
        }
    )


def again(
    want: Environment, info: BundleInfo, interpreters: Mapping[str, str], place: Place
) -> Again:
    """A fresh virtual environment with the very packages, from whatever index pip is set to.

    `interpreters` of the box, by version: `3.11.7`, or `3.11` where no more is known of it.
    """
    version = want.python.rsplit(" ", 1)[-1]
    minor = ".".join(version.split(".")[:2])
    interpreter = interpreters.get(version) or interpreters.get(minor)
    lines = [f"{each.name}=={each.version}" for each in want.packages]
    text = "".join(f"{line}\n" for line in sorted(lines))
    name = hashlib.sha256(f"{minor}\n{text}".encode()).hexdigest()[:12]
    path = f"{place.environments}/replay-{name}"
    python, listed = f"{path}/bin/python", f"{path}/requirements.txt"
    made = (interpreter or f"python{minor}", "-m", "venv", path)
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps")
    commands = (
        Run(argv=made, why=f"the bundle ran on Python {version}", title=f"make {path}"),
        Put(path=listed, text=text, why="the packages that the bundle names"),
        Run(
            argv=(*pip, "--requirement", listed),
            why="the packages that the bundle names",
            title=f"install {len(lines)} packages",
            timeout_s=None,
        ),
    )
    reasons = [] if interpreter else [f"it ran on Python {minor}, {_has(interpreters)}"]
    return Again(python, commands, (*reasons, *_impossible(want, info)))


def _has(interpreters: Mapping[str, str]) -> str:
    return f"the box has {', '.join(interpreters)}" if interpreters else "the box has none"


def _impossible(want: Environment, info: BundleInfo) -> list[str]:
    found = []
    if info.commit is not None and any(each.name == _OWN for each in want.packages):
        found.append(f"it ran ddops and its engine from commit {info.commit}, not from a release")
    return found


def _nearer(want: Weights, have: Sequence[Weights]) -> Weights:
    """The same file from where the box's own inventory has it."""
    same = (one for one in have if want.sha256 and one.sha256 == want.sha256)
    return next(same, want)
