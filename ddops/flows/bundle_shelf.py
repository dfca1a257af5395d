"""Bundles are put on a shelf and taken from it: a folder with an index, or an OCI registry.

Only a bundle without a fault is given away, and only one without a fault is taken.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ddops.bundle import artifact
from ddops.errors import BundleError, UsageError
from ddops.flows.bundle import SUFFIX, repack
from ddops.flows.bundle_levels import whole
from ddops.flows.bundle_verify import sound, verify
from ddops.flows.voice import Voice
from ddops.host import atomic, registry
from ddops.spec.bundle import BundleInfo
from ddops.spec.complaint import complaint
from ddops.spec.shelf import Blob, Index, Registry, Shelf, Shelved, parse_shelf

INDEX: Final = "index.json"


@dataclass(frozen=True)
class Moved:
    name: str
    where: str
    sha256: str  # of the archive
    changed: bool  # False: it was there already


def shelf_of(text: str) -> Shelf:
    try:
        return parse_shelf(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def push(path: Path, shelf: Shelf, voice: Voice, *, replace: bool = False) -> Moved:
    """Raises `BundleError` for a bundle with a fault, and `UsageError` when something else lies
    under its name and `replace` is not asked for.
    """
    sound(path, verify(path).findings)
    info = whole(path).info
    with _archive(path) as archive:
        if isinstance(shelf, Registry):
            return _to_registry(info, archive, shelf, voice, replace=replace)
        return _to_folder(info, archive, shelf, replace=replace)


def pull(name: str, shelf: Shelf, out: Path, voice: Voice) -> Moved:
    """Into the folder `out`, where the archive appears whole and checked, or not at all.

    Raises `UsageError` when there is no such bundle or something else lies in its place.
    """
    out.mkdir(parents=True, exist_ok=True)
    final, coming = out / f"{name}{SUFFIX}", out / f".{name}{SUFFIX}"
    if isinstance(shelf, Registry):
        with registry.opened(shelf) as repository:
            what = _asked(repository, shelf, name)
            if _lies(final, what.sha256):
                return Moved(name, str(final), what.sha256, changed=False)
            with voice.step(f"pull {name}", of="bytes") as progress:
                repository.pull(what, coming, progress)
    else:
        kept = _kept(shelf, name)
        what = Blob(digest=f"sha256:{kept.sha256}", size=kept.size)
        if _lies(final, what.sha256):
            return Moved(name, str(final), what.sha256, changed=False)
        _copied(shelf / kept.file, coming, what)
    try:
        sound(coming, verify(coming).findings)
        coming.replace(final)
    finally:
        coming.unlink(missing_ok=True)
    return Moved(name, str(final), what.sha256, changed=True)


@contextmanager
def _archive(path: Path) -> Iterator[Path]:
    """Of a folder one is made: the same folder, the same bytes."""
    if not path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix=".ddops-push-") as scratch:
        archive = Path(scratch) / f"{path.name}{SUFFIX}"
        repack(path, archive)
        yield archive


def _to_registry(
    info: BundleInfo, archive: Path, shelf: Registry, voice: Voice, *, replace: bool
) -> Moved:
    what = Blob(digest=f"sha256:{_sha256(archive)}", size=archive.stat().st_size)
    made = artifact.manifest(info, what, f"{info.name}{SUFFIX}")
    done = Moved(info.name, f"{shelf.name}:{info.name}", what.sha256, changed=True)
    with registry.opened(shelf) as repository, tempfile.NamedTemporaryFile() as empty:
        there = repository.manifest(info.name)
        if there == made:
            return Moved(info.name, done.where, what.sha256, changed=False)
        if there is not None and not replace:
            raise _occupied(info.name, shelf.name)
        empty.write(artifact.EMPTY)
        empty.flush()
        repository.push(artifact.blob(artifact.EMPTY), Path(empty.name), lambda done, total: None)
        with voice.step(f"push {info.name}", of="bytes") as progress:
            repository.push(what, archive, progress)
        repository.put_manifest(info.name, made)
    return done


def _to_folder(info: BundleInfo, archive: Path, shelf: Path, *, replace: bool) -> Moved:
    shelf.mkdir(parents=True, exist_ok=True)
    kept = Shelved(
        file=f"{info.name}{SUFFIX}",
        sha256=_sha256(archive),
        size=archive.stat().st_size,
        box=info.box,
        matrix=info.matrix,
        created=info.created,
    )
    place = shelf / kept.file
    with _alone(shelf):
        index = _index(shelf)
        known = index.bundles.get(info.name)
        if known == kept and place.is_file() and _sha256(place) == kept.sha256:
            return Moved(info.name, str(place), kept.sha256, changed=False)
        if known is not None and known.sha256 != kept.sha256 and not replace:
            raise _occupied(info.name, str(shelf))
        fresh = shelf / f".{kept.file}.new"
        try:
            shutil.copyfile(archive, fresh)
            atomic.settle(fresh, place)
        finally:
            fresh.unlink(missing_ok=True)
        bundles = dict(sorted({**index.bundles, info.name: kept}.items()))
        text = Index(schema_version=1, bundles=bundles).model_dump_json(indent=1)
        atomic.write(shelf / INDEX, f"{text}\n".encode())
    return Moved(info.name, str(place), kept.sha256, changed=True)


@contextmanager
def _alone(shelf: Path) -> Iterator[None]:
    """The index is read and written by one at a time; the lock ends with the process."""
    with (shelf / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _index(shelf: Path) -> Index:
    path = shelf / INDEX
    try:
        return Index.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Index(schema_version=1, bundles={})
    except ValidationError as error:
        first = complaint(error)
        raise BundleError(
            f"{path}: {first.where}: {first.message}",
            hint="is it a shelf of another version of ddops? Name another folder",
        ) from None


def _kept(shelf: Path, name: str) -> Shelved:
    index = _index(shelf)
    if name not in index.bundles:
        raise _unknown(name, str(shelf), list(index.bundles))
    return index.bundles[name]


def _asked(repository: registry.Repository, shelf: Registry, name: str) -> Blob:
    content = repository.manifest(name)
    if content is None:
        raise _unknown(name, shelf.name, repository.tags())
    try:
        return artifact.archive_of(content)
    except ValueError as error:
        raise BundleError(f"{shelf.name}:{name} is no bundle: {error}") from None


def _copied(source: Path, coming: Path, what: Blob) -> None:
    try:
        shutil.copyfile(source, coming)
    except FileNotFoundError:
        raise BundleError(f"{source} is gone, and {INDEX} still names it") from None
    if _sha256(coming) != what.sha256:
        coming.unlink()
        raise BundleError(
            f"{source} is not what {INDEX} says", hint="push it again, with `--replace`"
        )


def _lies(final: Path, sha256: str) -> bool:
    if not final.exists():
        return False
    if _sha256(final) != sha256:
        raise UsageError(
            f"{final} is there already, and is another one",
            hint="move it away, or name another place with `--out`",
        )
    return True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _occupied(name: str, where: str) -> UsageError:
    return UsageError(
        f"{where} has another bundle of the name {name}",
        hint="`--replace` puts this one in its place",
    )


def _unknown(name: str, where: str, there: Sequence[str]) -> UsageError:
    kept = ", ".join(there)
    return UsageError(
        f"{where} has no bundle {name}",
        hint=f"it has {kept}" if kept else "`ddops bundle push` puts one there",
    )
