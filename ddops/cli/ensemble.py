"""Boxes that serve as one: started in order, and put back together when one of them fails.

Routers come after the boxes they stand in front of. A box of an ensemble that fails does not put
itself back: its old generation may need those of the others to pass its gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ddops.cli.output import Output
from ddops.cli.several import Outcome, at_once, each
from ddops.errors import ServiceError, SpecError

LEAVE = "--leave-failed"


def crippled(planned: Sequence[Outcome]) -> list[Outcome]:
    """Boxes that could be deployed, but not one that they serve with: they are left alone too."""
    from ddops.spec.groups import together
    from ddops.spec.load import load_box

    done = {one.box: one for one in planned}
    loaded = [load_box(one.box) for one in planned if one.exit_code != SpecError.exit_code]
    return [
        replace(done[name], exit_code=done[failed[0]].exit_code, result=None, error=said)
        for names in together(loaded)
        if (failed := _failed(names, done))
        for name in sorted(names - {*failed})
        for said in [f"left alone: it serves with `{failed[0]}`, which cannot be planned"]
    ]


def deploy(names: Sequence[str], words: Sequence[str], out: Output) -> list[Outcome]:
    """`ddops deploy` for every box, the outcomes in the order of `names`."""
    from ddops.spec.groups import together
    from ddops.spec.load import load_box

    boxes = [load_box(name) for name in names]
    ensembles = together(boxes)
    bound = {name: one for one in ensembles for name in one}
    routers = [box.name for box in boxes if box.deployment.router]
    before = _serving([name for name in names if name in bound], out)
    done: dict[str, Outcome] = {}
    idle: list[str] = []
    for wave in ([name for name in names if name not in routers], routers):
        idle += [name for name in wave if _failed(bound.get(name, ()), done)]
        lines = [
            ("deploy", name, *words, *([LEAVE] if name in bound else []))
            for name in wave
            if name not in idle
        ]
        done |= {one.box: one for one in at_once(lines, out)}
    for ensemble in ensembles:
        if _failed(ensemble, done):
            done |= _put_back([name for name in names if name in ensemble], before, done, out)
    done |= {name: _not_started(name) for name in idle}
    return [done[name] for name in names]


def _serving(names: Sequence[str], out: Output) -> dict[str, int]:
    """The generation that serves on each; 0: none that has passed its gate."""
    said = each("rollback", names, ["--list"], out)
    return {one.box: one.result["current"] for one in said if one.result}


def _failed(names: Sequence[str] | frozenset[str], done: Mapping[str, Outcome]) -> list[str]:
    return sorted(name for name in names if name in done and done[name].exit_code)


def _not_started(name: str) -> Outcome:
    return Outcome(name, ServiceError.exit_code, None, "not started: what it stands before failed")


def _put_back(
    names: Sequence[str], before: Mapping[str, int], done: Mapping[str, Outcome], out: Output
) -> dict[str, Outcome]:
    """All that were touched, at the same moment: ranks come up together or not at all."""
    touched = [name for name in names if name in done and _touched(done[name])]
    out.warn(f"{_failed(names, done)[0]} failed: putting back {', '.join(touched)}")
    lines = [
        ("rollback", name, str(before[name]), "--yes") if before[name] else ("stop", name)
        for name in touched
        if name in before
    ]
    undone = {one.box: one for one in at_once(lines, out)}
    return {name: _told(done[name], undone.get(name), before.get(name)) for name in touched}


def _touched(one: Outcome) -> bool:
    """A failure may have come at any moment; to put back what was not changed changes nothing."""
    return one.result is None or bool(one.result["changed"])


def _told(one: Outcome, undone: Outcome | None, before: int | None) -> Outcome:
    """A box that came up and had to go back has failed too."""
    if undone is None or before is None:
        said = "what served before is not known, and was not put back"
    elif undone.exit_code:
        said = f"what served before does not come back: {undone.error}"
    else:
        said = f"generation {before} serves again" if before else "stopped"
    first = one.error or "came up, but not those that it serves with"
    return replace(
        one,
        exit_code=one.exit_code or ServiceError.exit_code,
        result=None,
        error=f"{first}\n{said}",
    )
