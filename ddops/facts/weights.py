"""Which files of a set of weights lie on the box, and what is in them. A shell is enough there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from ddops.errors import HostError
from ddops.host.base import Host
from ddops.spec.command import Run
from ddops.spec.manifest import FileManifest, nanoseconds, read
from ddops.spec.observed import Artefact, Offer

# A part counts by the blocks it takes: it has holes where bytes are missing.
_LOOK = r"""
for path; do
  case $path in '~/'*) path=$HOME/${path#'~/'} ;; /*) ;; *) path=$PWD/$path ;; esac
  if [ -d "$path" ]; then
    size=$(find "$path" -type f -printf '%s\n' | awk '{ s += $1 } END { printf "%.0f", s }')
    printf 'folder\t%s\t0.0\t%s\t\n' "$size" "$path"
  elif [ -f "$path" ]; then
    printf 'file\t%s\t%s\t' "$(stat -Lc '%s' "$path")" "$(stat -Lc '%.9Y' "$path")"
    printf '%s\t%s\n' "$path" "$(cat "$path.manifest.json" 2>/dev/null | tr -d '\n\t')"
  elif [ -f "$path.part" ]; then
    printf 'part\t%s\t0.0\t%s\t\n' $(($(stat -c %b "$path.part") * 512)) "$path"
  fi
done
"""
_HASH = 'printf "%s\\0" "$@" | xargs -0 -n 1 -P 8 sha256sum --'


@dataclass(frozen=True)
class _Row:
    kind: str
    size: int
    mtime_ns: int
    path: str
    manifest: FileManifest | None

    @property
    def known(self) -> str | None:
        """Its digest, when it has not changed since it was checked."""
        note = self.manifest
        same = note and (note.size, note.mtime_ns) == (self.size, self.mtime_ns)
        return note.sha256 if note and same else None


def look(host: Host, paths: Sequence[str], *, read_all: bool = False) -> tuple[Artefact, ...]:
    """Reads the content only where size or time differ from the manifest, or of all."""
    if not paths:
        return ()
    rows = _rows(_said(host, _LOOK, paths))
    unknown = [r.path for r in rows if r.kind == "file" and (read_all or not r.known)]
    digests = _digests(_said(host, _HASH, unknown)) if unknown else {}
    return tuple(
        Artefact(
            path=row.path,
            size=row.size,
            sha256=digests.get(row.path, row.known),
            recorded=row.manifest.sha256 if row.manifest else None,
            mtime_ns=row.mtime_ns,
            part=row.kind == "part",
        )
        for row in rows
    )


def parse_offer(text: bytes | None) -> Offer | None:
    """A listing that cannot be read is as good as none: the source is asked again."""
    try:
        return Offer.model_validate_json(text) if text is not None else None
    except ValidationError:
        return None


def _rows(text: str) -> list[_Row]:
    return [_row(line) for line in text.splitlines()]


def _row(line: str) -> _Row:
    kind, size, mtime, path, manifest = line.split("\t", 4)
    return _Row(kind, int(size), nanoseconds(mtime), path, read(manifest))


def _digests(text: str) -> dict[str, str]:
    parted = (line.partition("  ") for line in text.splitlines())
    return {path: digest for digest, _, path in parted}


def _said(host: Host, script: str, paths: Sequence[str]) -> str:
    argv = ("sh", "-c", script, "sh", *paths)
    # A changed file is read again, and it may be large.
    result = host.run(Run(argv=argv, why="look at the weights", timeout_s=None))
    if not result.ok:
        raise HostError(
            "the weights on the box cannot be read",
            detail=result.stderr.strip()[-500:] or None,
            hint="set it right, then run the same command again",
        )
    return result.stdout
