"""A run becomes an archive that anyone can check: pack it, check it, say what it holds."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ddops.analysis.claims import Claim
from ddops.bundle import archive, bag, recheck, signature
from ddops.bundle.signature import Signed
from ddops.errors import BundleError
from ddops.flows import signing
from ddops.flows.bundle_verify import sound, unpacked, verify
from ddops.flows.packing import inside, laid
from ddops.flows.runs import chosen, load
from ddops.flows.voice import Silent, Voice
from ddops.host import atomic
from ddops.spec.bundle import BundleInfo
from ddops.spec.run import Run

SUFFIX = ".tar.zst"
_SCRATCH = ".packing-"


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


def create(
    run_dir: Path | None = None, out: Path | None = None, voice: Voice | None = None
) -> Created:
    """Bundle a run; None is the last one under `results/`. `out` is a folder: the run's
    neighbour `bundles/` by default. What lies there under the same name is replaced at the end.
    """
    speak = voice or Silent()
    with speak.step("read the run"):
        stored = load(chosen(run_dir))
    out = out or stored.folder.parent / "bundles"
    out.mkdir(parents=True, exist_ok=True)
    with _alone(out), tempfile.TemporaryDirectory(dir=out, prefix=_SCRATCH) as scratch:
        with speak.step("write its files"):
            made = laid(stored, Path(scratch))
        folder, packed = out / made.folder.name, out / f"{made.folder.name}{SUFFIX}"
        with speak.step("check them"):
            _check_own(made.folder)
        with speak.step("pack them"), (Path(scratch) / packed.name).open("wb") as target:
            tar_sha256 = archive.pack(made.files, folder.name, target)
            os.fsync(target.fileno())
        if folder.exists():
            folder.rename(Path(scratch) / "before")
        made.folder.rename(folder)
        (Path(scratch) / packed.name).replace(packed)
    return Created(packed, folder, tar_sha256, made.redacted)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """One packs into a folder at a time, so what another has left there it left when it died."""
    handle = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for left in out.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left)
        yield
    finally:
        os.close(handle)


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
            repack(folder, path)
    return True


def show(path: Path) -> Shown:
    with unpacked(path) as folder:
        sound(path, bag.unsafe(folder))
        recheck.refuse_newer(folder)
        opened = recheck.open_bundle(folder)
        checked = signing.check(folder, signers=None)
        sound(path, (*opened.findings, *checked.findings))
        assert opened.info and opened.run, "what is not there is a finding"
        seen = inside(opened.run, opened.records)
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


def repack(folder: Path, packed: Path) -> None:
    """The archive of a bundle's folder: the same files, the same bytes."""
    fresh = packed.with_name(f".{packed.name}.new")
    try:
        with fresh.open("wb") as target:
            archive.pack(_files(folder), folder.name, target)
        atomic.settle(fresh, packed)
    finally:
        fresh.unlink(missing_ok=True)


def _files(folder: Path) -> dict[str, Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in found}


def _check_own(folder: Path) -> None:
    """A bundle that does not pass its own check is never given its name."""
    wrong = verify(folder).findings
    if wrong:
        raise BundleError(
            "the run is not coherent, so it was not packed",
            detail="\n".join(map(str, wrong)),
            hint="move the named records away and measure those cells again",
        )
