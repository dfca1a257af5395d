"""An archive becomes a folder again, whole or not at all, and only if nothing in it is amiss."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ddops.bundle import bag
from ddops.errors import UsageError
from ddops.flows.bundle_verify import sound, unpacked


@dataclass(frozen=True)
class Extracted:
    folder: Path
    changed: bool  # False: it lay there already


def extract(path: Path, out: Path) -> Extracted:
    """Unpack the archive at `path` into the folder `out`, where it appears whole or not at all.

    Raises `BundleError` for an archive that is not safe or whose hashes are not right, and
    `UsageError` when something else lies in its place.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder already", hint=f"`ddops bundle verify {path}`")
    out.mkdir(parents=True, exist_ok=True)
    with unpacked(path, out) as fresh:
        sound(path, bag.check(fresh))
        folder = out / fresh.name
        if not folder.exists():
            fresh.rename(folder)
            return Extracted(folder, changed=True)
        if not _same(fresh, folder):
            raise UsageError(
                f"{folder} is there already, and is not what {path} holds",
                hint="move it away, or name another place with `--out`",
            )
    return Extracted(folder, changed=False)


def _same(one: Path, other: Path) -> bool:
    """Two sound bags are the same when their tag manifests and signatures are."""
    names = (bag.TAG_MANIFEST, bag.SIGNATURE)
    pinned = [
        [path.read_bytes() if path.is_file() else None for path in (folder / n for n in names)]
        for folder in (one, other)
    ]
    return pinned[0] == pinned[1] and not any(bag.check(other))
