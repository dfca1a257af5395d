"""A run becomes an archive that anyone can check: pack it, check it, say what it holds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ddops import __version__
from ddops.analysis.claims import Claim
from ddops.bundle import archive, bag, contents, recheck, signature
from ddops.bundle.redact import Known
from ddops.bundle.signature import Signed
from ddops.errors import BundleError
from ddops.flows import signing
from ddops.flows.bundle_verify import sound, unpacked, verify
from ddops.flows.private import known_here
from ddops.flows.report import drawn, viewed
from ddops.flows.runs import Stored, chosen, environment, load
from ddops.host import atomic
from ddops.report.view import View
from ddops.spec.bundle import BundleInfo
from ddops.spec.record import Record
from ddops.spec.run import Run

SUFFIX = ".tar.zst"


@dataclass(frozen=True)
class Created:
    archive: Path
    folder: Path
    tar_sha256: str
    redacted: Mapping[str, int]  # by kind


@dataclass(frozen=True)
class Shown:
    info: BundleInfo
    run: Run
    claims: tuple[Claim, ...]
    tally: Mapping[str, int]
    files: int
    size: int  # bytes, unpacked
    redactions: int
    signed: tuple[Signed, ...]


def create(run_dir: Path | None = None, out: Path | None = None) -> Created:
    """Bundle a run; None is the last one under `results/`. `out` is a folder: the run's
    neighbour `bundles/` by default. What lies there under the same name is replaced at the end.
    """
    stored = load(chosen(run_dir))
    out = out or stored.folder.parent / "bundles"
    out.mkdir(parents=True, exist_ok=True)
    made = _made(stored, known_here(stored.run))
    folder, packed = out / made.info.name, out / f"{made.info.name}{SUFFIX}"
    with tempfile.TemporaryDirectory(dir=out, prefix=".packing-") as scratch:
        fresh = Path(scratch) / made.info.name
        for name, content in made.files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        _check_own(fresh)
        with (Path(scratch) / packed.name).open("wb") as target:
            tar_sha256 = archive.pack(made.files, made.info.name, target)
            os.fsync(target.fileno())
        if folder.exists():
            folder.rename(Path(scratch) / "before")
        fresh.rename(folder)
        (Path(scratch) / packed.name).replace(packed)
    return Created(packed, folder, tar_sha256, made.redacted)


def sign(path: Path, key: Path) -> bool:
    """Add to the bundle at `path` that the holder of `key` vouches for it; False: has done so.

    Raises `BundleError` for a bundle with faults, `UsageError` for a key that cannot sign.
    """
    with unpacked(path) as folder:
        sound(path, verify(folder).findings)
        written, manifest = folder / bag.SIGNATURE, (folder / bag.TAG_MANIFEST).read_bytes()
        if written.exists():
            envelope = signature.read(written.read_bytes(), manifest)
        else:
            envelope = signature.unsigned(manifest, recheck.open_bundle(folder))
        before = set(envelope.signatures)
        if signing.sign(envelope, key) in before:
            return False
        atomic.write(written, signature.text(envelope))
        if not path.is_dir():
            _repack(folder, path)
    return True


def show(path: Path) -> Shown:
    with unpacked(path) as folder:
        sound(path, bag.unsafe(folder))
        recheck.refuse_newer(folder)
        opened = recheck.open_bundle(folder)
        checked = signing.check(folder, signers=None)
        sound(path, (*opened.findings, *checked.findings))
        assert opened.info and opened.run, "what is not there is a finding"
        seen = _viewed(opened.run, opened.records)
        sizes = [each.stat().st_size for each in folder.rglob("*") if each.is_file()]
        return Shown(
            info=opened.info,
            run=opened.run,
            claims=seen.claims,
            tally=seen.tally,
            files=len(sizes),
            size=sum(sizes),
            redactions=sum(redaction.count for redaction in opened.redactions),
            signed=checked.signed,
        )


def _repack(folder: Path, packed: Path) -> None:
    fresh = packed.with_name(f".{packed.name}.new")
    try:
        with fresh.open("wb") as target:
            archive.pack(_files(folder), folder.name, target)
        atomic.settle(fresh, packed)
    finally:
        fresh.unlink(missing_ok=True)


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@dataclass(frozen=True)
class _Made:
    info: BundleInfo
    files: Mapping[str, bytes]
    redacted: Mapping[str, int]


def _made(stored: Stored, known: Known) -> _Made:
    source = contents.Source(
        run=stored.run,
        records=stored.records,
        texts=stored.texts(),
        environment=environment(stored),
        ddops_version=__version__,
    )
    told = contents.info(source)
    clean = contents.cleaned(contents.texts(source), known)
    run = Run.model_validate_json(clean.texts["run.json"])
    records = {
        name: Record.model_validate_json(clean.texts[f"records/{name}"]) for name in stored.records
    }
    seen = _viewed(run, records)
    pages = drawn(seen)
    payload = {
        **clean.texts,
        "redactions.json": contents.redactions_file(clean.redactions),
        "report/report.html": pages.html,
        "report/report.md": pages.markdown,
    }
    files = bag.bagged(
        {name: text.encode() for name, text in payload.items()},
        contents.readme(told, seen.claims, clean).encode(),
        contents.bag_info(told),
    )
    return _Made(told, files, _by_kind(clean))


def _viewed(run: Run, records: Mapping[str, Record]) -> View:
    """As the report inside a bundle sees its records."""
    ordered = sorted(records.items(), key=lambda each: each[1].started_at)
    return viewed(run, {f"../records/{name}": record for name, record in ordered})


def _check_own(folder: Path) -> None:
    """A bundle that does not pass its own check is never given its name."""
    wrong = verify(folder).findings
    if wrong:
        raise BundleError(
            "the run is not coherent, so it was not packed",
            detail="\n".join(map(str, wrong)),
            hint="move the named records away and measure those cells again",
        )


def _by_kind(clean: contents.Clean) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for redaction in clean.redactions:
        kinds[redaction.kind] = kinds.get(redaction.kind, 0) + redaction.count
    return kinds
