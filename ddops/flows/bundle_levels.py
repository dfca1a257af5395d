"""The levels of a check that need more than the bundle: a box, or a replay."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddops.analysis import drift
from ddops.analysis.pairs import Evidence, compare
from ddops.bundle import bag, replayed
from ddops.bundle.bag import Finding
from ddops.bundle.danger import Danger, dangers, differences
from ddops.errors import BundleError, CheckError, ClaimsError, DdopsError, UsageError
from ddops.facts.look import look, look_environment
from ddops.flows.bundle_verify import Verified, read_sound, sound, unpacked, verify
from ddops.flows.compare import TIMINGS
from ddops.flows.site import Site, opened
from ddops.spec.bundle import BundleInfo
from ddops.spec.deployment import Deployment, Weights
from ddops.spec.drift import Drift
from ddops.spec.level import ALONE, TOLERANCE, Level
from ddops.spec.observed import Holding, Observed
from ddops.spec.packages import Environment
from ddops.steps import replay as steps


@dataclass(frozen=True)
class Beyond:
    """What L4 to L6 need besides the bundle."""

    box: str = "local"
    replay: Path | None = None
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Whole:
    """A bundle without a fault, in words."""

    info: BundleInfo
    evidence: Evidence
    environment: Environment | None
    sha256: str  # of its tag manifest


def check(path: Path, signers: Path | None, level: Level, beyond: Beyond) -> Verified:
    """As `verify`; what lies beyond it is looked at when nothing before it was at fault."""
    if level >= "L5" and beyond.replay is None:
        raise UsageError(
            f"{level} compares {path} with a replay of it: name that with `--replay`",
            hint=f"make one: `ddops bundle replay {path} --box {beyond.box}`",
        )
    seen = verify(path, signers, level)
    if seen.findings or level <= ALONE:
        return seen
    if beyond.replay is not None and level >= "L5":
        return replace(seen, findings=of_replay(path, beyond.replay, level, beyond.tolerance))
    with opened(beyond.box) as site:
        found = endangered(whole(path), site)
    notes = (*seen.notes, *(f"endangered: {claim}" for claim in claims(found)))
    return replace(seen, notes=notes, findings=tuple(one.finding for one in found))


def error(found: Sequence[Finding]) -> type[DdopsError]:
    """Its exit code says what is at fault: the bundle, the box, or what the bundle states."""
    level = min(finding.level for finding in found)
    if level <= ALONE:
        return BundleError
    return CheckError if level == "L4" else ClaimsError


def whole(path: Path) -> Whole:
    """Raises `BundleError` for a bundle with a fault up to L1; of several attempts the last."""
    with unpacked(path) as folder:
        read = read_sound(path, folder)
        pinned = hashlib.sha256((folder / bag.TAG_MANIFEST).read_bytes()).hexdigest()
    assert read.info and read.run, "what is not there is a finding"
    ordered = sorted(read.records.values(), key=lambda record: record.started_at)
    last = {record.cell.id: record for record in ordered}
    return Whole(read.info, Evidence(read.run, last, strange={}), read.environment, pinned)


def of_replay(path: Path, replay: Path, level: Level, tolerance: float) -> tuple[Finding, ...]:
    """What L5, and for L6 also L6, finds. Raises `BundleError` when the replay has a fault."""
    sound(replay, verify(replay).findings)
    before, now = whole(path), whole(replay)
    if strange := tuple(replayed.linked(now.info, before.info.name, before.sha256)):
        return strange
    one, other = before.evidence, now.evidence
    seen = compare(one, other, TIMINGS)
    found = list(replayed.alike(one.records, other.records, seen, tolerance))
    if level == "L6":
        found += replayed.same_answers(one.records, other.records)
    return tuple(found)


def wishing(site: Site, wanted: Deployment) -> Site:
    """The same box with what a bundle had served, as this box can serve it."""
    wish = steps.deployment(wanted, site.box.deployment)
    return replace(site, box=site.box.model_copy(update={"deployment": wish}))


def endangered(of: Whole, site: Site) -> tuple[Danger, ...]:
    """Where the box is not what the bundle's was, as far as anything may depend on it."""
    wishes = wishing(site, of.evidence.run.found)
    seen = look(wishes.host, wishes.box)
    facts = seen.model_dump(mode="json", include={"system", "python", "gpus"})
    now = look_environment(wishes.host, wishes.place)
    found = differences(of.evidence.run, of.environment, facts, now)
    found += _weights(wishes.box.deployment, seen)
    return tuple(dangers(of.evidence.run, list(of.evidence.records.values()), found))


def claims(found: Sequence[Danger]) -> tuple[str, ...]:
    """Those that any of `found` endangers, each once."""
    return tuple(dict.fromkeys(claim for one in found for claim in one.claims))


def _weights(wish: Deployment, seen: Observed) -> list[Drift]:
    """Files that are there and are other ones; what is not there can be fetched."""
    drafter = wish.decoding.drafter
    found = _other("model", wish.model.weights, seen.model)
    if isinstance(drafter, Weights) and seen.drafter:
        found += _other("drafter", drafter, seen.drafter)
    return found


def _other(role: str, want: Weights, seen: Holding) -> list[Drift]:
    there = drift.weights(want, seen) if seen.artefacts else []
    return [one.model_copy(update={"what": role}) for one in there]
