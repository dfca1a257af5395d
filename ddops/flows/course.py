"""What a bench and a search share: a run is begun, the service switched, the box put back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from ddops import __version__
from ddops.bench.journal import Found, Journal, unrestored
from ddops.bench.prompts import PromptSet
from ddops.bench.provenance import commit
from ddops.engines.table import ENGINES
from ddops.facts import health
from ddops.facts.look import look
from ddops.flows import kept
from ddops.flows.advise import ask
from ddops.flows.cell import Course, Stage, now
from ddops.flows.perform import perform
from ddops.flows.service import Served, current, facts_digest, serve, switch
from ddops.flows.site import Site
from ddops.flows.stop import stop_plan
from ddops.flows.voice import Voice
from ddops.host.listening import Listening
from ddops.spec.deployment import Deployment
from ddops.spec.matrix import Matrix, Variant
from ddops.spec.record import EngineSeen
from ddops.spec.run import BasedOn, PromptsSeen, Run, Session
from ddops.spec.run import Served as ServedNote


@dataclass(frozen=True)
class Wanted:
    """What is to be measured, and where it is kept."""

    matrix: Matrix
    prompts: PromptSet
    base: Deployment  # as deployed; variants change its decoding
    journal: Journal
    based_on: BasedOn | None = field(default=None, kw_only=True)  # the bundle that is repeated


def begin(site: Site, wanted: Wanted, command: tuple[str, ...]) -> Course:
    """Write down what all records of this run share, and what the box serves before it."""
    heard, measured_by = Listening(site.host), commit()
    there = site.box.model_copy(update={"deployment": wanted.base})
    seen = look(heard, there)
    digest = facts_digest(seen)
    journal, prompts = wanted.journal, wanted.prompts
    session = Session(
        started_at=now(), ddops_version=__version__, commit=measured_by, command=command
    )
    before = journal.run
    journal.keep_run(
        Run(
            schema_version=1,
            matrix=wanted.matrix,
            fingerprint=wanted.matrix.fingerprint,
            box=site.box.name,
            box_facts=seen.model_dump(mode="json", include={"system", "python", "gpus"}),
            box_facts_sha256=digest,
            found=wanted.base,
            prompts=PromptsSeen(
                id=prompts.id,
                licence=prompts.licence,
                sha256=prompts.sha256,
                count=len(prompts.prompts),
                trace_sha256=prompts.trace_sha256,
            ),
            sessions=(*(before.sessions if before else ()), session),
            served=before.served if before else {},
            based_on=wanted.based_on,
        )
    )
    kept.box(journal.folder, site, seen, heard.said)
    if not _left_behind(site, journal.folder.parent):
        running = seen.service.state == "running"
        journal.keep_found(Found(box=site.box.name, deployment=wanted.base, running=running))
    return Course(
        site,
        wanted.matrix,
        prompts,
        digest,
        measured_by,
        command,
        folder=journal.folder,
        asked=ask(Site(site.host, there), wanted.base, seen),
    )


def staged(
    course: Course, journal: Journal, variant: Variant, deployment: Deployment, voice: Voice
) -> Stage:
    """Variants change how it decodes: what the box said when the run began holds for all."""
    site = course.site
    there = Site(site.host, site.box.model_copy(update={"deployment": deployment}))
    with kept.log(journal.folder, site, f"{variant.name}.start"):
        served = serve(there, course.asked, voice)
    stage = Stage(served, _engine(served))
    run = journal.run
    assert run is not None, "run.json is written before the first switch"
    note = ServedNote(unit=served.unit, unit_sha256=served.unit_sha256, engine=stage.engine)
    journal.keep_run(run.model_copy(update={"served": {**run.served, variant.name: note}}))
    kept.unit(journal.folder, site, variant.name)
    return stage


def _engine(served: Served) -> EngineSeen | None:
    engine = ENGINES[served.deployment.engine]
    info = health.server_info(served.base_url, served.api_key, engine)
    if info is None:
        return None
    return EngineSeen(
        name=str(info.get("engine", engine.name)),
        version=str(info.get("version", "unknown")),
        argv=tuple(map(str, info.get("argv", ()))),
        info=info,
    )


def restore(site: Site, out: Path, voice: Voice) -> bool:
    """Serve again what was deployed; True when a run under `out` had left the box otherwise."""
    own = _left_behind(site, out)
    if not own:
        return False
    first = own[0][1]
    voice.say(f"putting back {first.deployment.decoding.label} on box `{site.box.name}`")
    switch(site.host, site.box, current(site.host, site.box) or first.deployment, voice=voice)
    if not first.running:
        for command in stop_plan(site):
            perform(site, command, voice)
    for journal, _ in own:
        journal.restored()
    return True


def _left_behind(site: Site, out: Path) -> list[tuple[Journal, Found]]:
    left = [(journal, found) for journal in unrestored(out) if (found := journal.found)]
    return [(journal, found) for journal, found in left if found.box == site.box.name]


@contextmanager
def terminable() -> Iterator[None]:
    """`kill` ends a bench as Ctrl-C does: the box is put back first."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
