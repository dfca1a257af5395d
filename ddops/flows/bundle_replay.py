"""A bundle is measured again on a box: differences first, then its packages, weights, matrix.

What comes out is a bundle of its own that names the first one, and the verdict of L5 and L6.
The box's own deployment is not replaced: it serves again afterwards, as after every bench.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ddops.bundle.bag import Finding
from ddops.bundle.danger import Danger, dangers, differences
from ddops.engines.table import ENGINES
from ddops.errors import CheckError, WeightsError
from ddops.facts import environment as probe
from ddops.facts.look import look, look_python
from ddops.flows import bench, model, packages
from ddops.flows.arrival import look_landing
from ddops.flows.bundle import create
from ddops.flows.bundle_levels import Whole, endangered, of_replay, whole, wishing
from ddops.flows.bundle_verify import sound, verify
from ddops.flows.history import Do
from ddops.flows.service import current
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Command, Pull, Run
from ddops.spec.deployment import Deployment, Weights
from ddops.spec.observed import Observed
from ddops.spec.packages import Environment
from ddops.spec.run import BasedOn
from ddops.spec.source import OnBox, parse_source
from ddops.steps import replay as steps
from ddops.steps import weights

REPLAYS: Final = Path("results") / "replays"


@dataclass(frozen=True)
class Plan:
    path: Path
    of: Whole
    site: Site  # the box, with the deployment and the interpreter of the replay
    dangers: tuple[Danger, ...]  # that will remain
    made: bool  # in packages of its own, which `environment` brings if they are not there yet
    environment: tuple[Command, ...]
    installs: tuple[Run, ...]
    weights: tuple[Command, ...]
    bench: bench.Plan

    @property
    def commands(self) -> tuple[Command, ...]:
        return (*self.environment, *self.installs, *self.weights)


@dataclass(frozen=True)
class Replayed:
    archive: Path
    measured: int  # cells, in this and earlier calls
    findings: tuple[Finding, ...]  # of L5 and L6


def plan(path: Path, site: Site, out: Path | None, cells: Sequence[str], *, as_is: bool) -> Plan:
    """Changes nothing. Raises `BundleError` for a bundle with a fault, and `CheckError` with every
    reason why it cannot be repeated; `as_is` goes on with the packages that the box has.
    """
    sound(path, verify(path).findings)
    of = whole(path)
    run, found = of.evidence.run, endangered(of, site)
    wishes = wishing(site, run.found)
    seen = look(wishes.host, wishes.box)
    made = None if as_is else _environment(of, wishes, found)
    _refuse(of, site, () if made is None else made.reasons, _lacking(wishes, seen))
    fetched = [c for one in model.wanted(wishes, None, None) for c in model.plan(wishes, one)]
    pulls = any(isinstance(one, Pull) for one in fetched)
    wish = wishes.box.deployment
    if made is not None:
        wish = wish.model_copy(update={"environment": None})
        found = tuple(one for one in found if not _is_software(one))
    return Plan(
        path=path,
        of=of,
        site=_in(made, wishes, wish),
        dangers=found,
        made=made is not None,
        environment=made.commands if made else (),
        installs=tuple(packages.planned(wishes, seen, pulls=pulls)),
        weights=tuple(fetched),
        bench=_bench(of, wishes, wish, out or _kept(path, of), cells),
    )


def replay(
    home: Site, planned: Plan, command: tuple[str, ...], do: Do, voice: Voice, tolerance: float
) -> Replayed:
    """The caller holds the lock of `home`, the box as its inventory has it, and that is what it
    serves again afterwards. After a kill the same call goes on: only what is missing is done.
    """
    for one in planned.environment:
        do(one)
    packages.install(home, planned.installs, do, voice)
    for one in planned.weights:
        do(one)
    wanted = replace(planned.bench, based_on=_based_on(planned))
    back = home if current(home.host, home.box) else planned.site
    done = bench.bench(planned.site, wanted, command, voice, home=back)
    bench.check(done)
    made = create(done.folder)
    findings = of_replay(planned.path, made.archive, "L6", tolerance)
    return Replayed(made.archive, len(done.records), findings)


def _kept(path: Path, of: Whole) -> Path:
    """Never inside the bundle, whose README has it repeated from there."""
    folder = path.resolve()
    inside = folder.is_dir() and Path.cwd().is_relative_to(folder)
    return (folder.parent / "replays" if inside else REPLAYS) / of.info.name


def _environment(of: Whole, site: Site, found: Sequence[Danger]) -> steps.Again | None:
    """None: the box has what matters. Without commands: it was made by an earlier replay."""
    if of.environment is None or not _packages(found):
        return None
    made = steps.again(of.environment, of.info, _interpreters(site), site.place)
    there = site.host.run(probe.command(made.python))
    if there.ok and not _packages(_dangers(of, probe.parse(there.stdout))):
        return replace(made, commands=(), reasons=())
    return made


def _interpreters(site: Site) -> dict[str, str]:
    """Of the distribution by their minor version, and that of the box's engine by its own."""
    own = look_python(site.host, site.place, ENGINES[site.box.deployment.engine])
    minors = look_landing(site).minors
    return {**{each: f"/usr/bin/python{each}" for each in minors}, own.version: own.executable}


def _based_on(planned: Plan) -> BasedOn:
    """With what differs now that all is made. Raises `CheckError` when packages still do."""
    of = planned.of
    found = endangered(of, planned.site)
    if planned.made and (wrong := _packages(found)):
        _refuse(of, planned.site, wrong, ())
    drift = tuple(one.line for one in found)
    return BasedOn(name=of.info.name, sha256=of.sha256, drift=drift)


def _dangers(of: Whole, now: Environment) -> tuple[Danger, ...]:
    """Of packages alone."""
    run, records = of.evidence.run, list(of.evidence.records.values())
    found = differences(run, of.environment, run.box_facts, now)
    return tuple(dangers(run, records, found))


def _packages(found: Sequence[Danger]) -> list[str]:
    return [one.line for one in found if one.drift.subject == "package"]


def _is_software(one: Danger) -> bool:
    return one.drift.subject in ("package", "python") or one.drift.what.startswith("python.")


def _lacking(site: Site, seen: Observed) -> list[str]:
    """Weights that only the first box had, as files of its own."""
    wish, reasons = site.box.deployment, []
    both = [(wish.model.weights, seen.model), (wish.decoding.drafter, seen.drafter)]
    for want, there in both:
        if isinstance(want, Weights) and there and isinstance(parse_source(want.source), OnBox):
            try:
                weights.complete(want, there)
            except WeightsError as error:
                reasons.append(error.subject)
    return reasons


def _in(made: steps.Again | None, site: Site, wish: Deployment) -> Site:
    """The box as it is measured: with the interpreter that was made for it, if any was."""
    python = made.python if made else site.box.python
    box = site.box.model_copy(update={"python": python, "deployment": wish})
    return replace(site, box=box)


def _bench(of: Whole, site: Site, wish: Deployment, out: Path, cells: Sequence[str]) -> bench.Plan:
    run = of.evidence.run
    planned = bench.plan(site, run.matrix, out, cells, base=wish)
    if planned.prompts.sha256 != run.prompts.sha256:
        raise CheckError(
            f"the prompts `{run.prompts.id}` here are not those of {of.info.name}",
            hint=f"they came with ddops {of.info.ddops_version}, or from a file that is to be here",
        )
    return planned


def _refuse(of: Whole, site: Site, software: Sequence[str], lacking: Sequence[str]) -> None:
    if software or lacking:
        raise CheckError(
            f"box `{site.box.name}` cannot repeat {of.info.name} as it was",
            detail="\n".join(f"- {reason}" for reason in (*software, *lacking)),
            hint="name the weights in the inventory of the box, with their sha256"
            if lacking
            else "`--as-is` goes on with the packages of the box, and writes down which differ",
        )
