"""Is a bundle what it claims to be: level by level, as far as nothing but the bundle is needed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ddops.bench.metrics import derive
from ddops.bundle import archive, bag, recheck
from ddops.bundle.bag import SIGNATURE, Finding
from ddops.bundle.signature import Signed
from ddops.errors import BundleError, UsageError
from ddops.flows import signing
from ddops.spec.level import ALONE, LEVELS, Level
from ddops.spec.record import Metrics, Record

_BEYOND: Final[Mapping[Level, tuple[Level, ...]]] = {
    "L4": ("L4",),
    "L5": ("L5",),
    "L6": ("L5", "L6"),
}

Answer = Literal["holds", "fails", "open"]


@dataclass(frozen=True)
class Verified:
    name: str
    level: Level  # that was asked for
    files: int
    records: int
    derived: int  # records whose numbers were derived again
    signed: tuple[Signed, ...]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def levels(self) -> dict[Level, Answer]:
        """Of each level that was looked at; open: nobody has signed.

        A replay is held against what the bundle states wherever it was made, so L5 leaves out L4.
        """
        failed = {finding.level for finding in self.findings}
        asked = [level for level in LEVELS if level <= min(self.level, ALONE)]
        if not failed or min(failed) > ALONE:
            asked += _BEYOND.get(self.level, ())
        found: dict[Level, Answer] = {at: "fails" if at in failed else "holds" for at in asked}
        if found.get("L2") == "holds" and not self.signed:
            found["L2"] = "open"
        return found


def verify(path: Path, signers: Path | None = None, level: Level = ALONE) -> Verified:
    """Every fault found up to `level`, by file. Beyond L3 there is more to it than the bundle.

    That nobody of the file `signers` has signed is a fault, and where L2 is all that is asked for,
    that nobody at all has. An archive that cannot be unpacked safely is a `BundleError`.
    """
    with unpacked(path) as folder:
        if dangers := tuple(bag.unsafe(folder)):
            return Verified(path.name, level, 0, 0, 0, signed=(), notes=(), findings=dangers)
        findings = tuple(bag.check(folder, hashed=level >= "L1"))
        known = {finding.file for finding in findings}
        if recheck.INFO not in known:
            recheck.refuse_newer(folder)
        checked = _signatures(folder, signers, level)
        inside = recheck.recheck(folder, derived if level >= "L3" else None)
        deeper = (f for f in inside.findings if f.file not in known or "metrics." in f.reason)
        return Verified(
            name=inside.info.name if inside.info else path.name,
            level=level,
            files=sum(each.is_file() for each in folder.rglob("*")),
            records=inside.records,
            derived=inside.derived,
            signed=checked.signed,
            notes=(*checked.notes, *inside.notes),
            findings=(*findings, *deeper, *checked.findings),
        )


def derived(record: Record) -> Metrics | None:
    if record.window_s is None:
        return None
    return derive(
        record.traces,
        record.window_s,
        record.counters_before,
        record.counters_after,
        record.load,
    )


@contextmanager
def unpacked(path: Path, near: Path | None = None) -> Iterator[Path]:
    """The folder of a bundle, be it one or an archive of one; that is unpacked below `near`."""
    if path.is_dir():
        yield path
    elif path.is_file():
        with tempfile.TemporaryDirectory(dir=near, prefix=".ddops-bundle-") as scratch:
            yield archive.unpack(path, Path(scratch))
    else:
        raise UsageError(f"there is no bundle {path}", hint="make one: `ddops bundle create`")


def read_sound(path: Path, folder: Path) -> recheck.Opened:
    """The bundle at `path`, unpacked in `folder`, in words. Raises `BundleError` for a fault up to
    L1, or a format that is newer than this ddops.
    """
    sound(path, bag.check(folder))
    recheck.refuse_newer(folder)
    opened = recheck.open_bundle(folder)
    sound(path, opened.findings)
    return opened


def sound(path: Path, findings: Iterable[Finding]) -> None:
    """What has faults is not signed, shown, unpacked, repeated or given away."""
    if told := "\n".join(map(str, findings)):
        hint = f"`ddops bundle verify {path}` names every fault"
        raise BundleError(f"{path} is damaged", detail=told, hint=hint)


def _signatures(folder: Path, signers: Path | None, level: Level) -> signing.Checked:
    if level < "L2" and signers is None:
        return signing.Checked()
    checked = signing.check(folder, signers)
    if level == "L2" and signers is None and not (folder / SIGNATURE).is_file():
        return signing.Checked(findings=(Finding(SIGNATURE, "is missing: nobody signed", "L2"),))
    return checked
