"""Whether a folder of weights is complete: every shard that its index names lies there."""

from __future__ import annotations

import json
from posixpath import dirname, join, normpath

from ddops.errors import WeightsError
from ddops.host.base import Host
from ddops.spec.command import Run

_LIST = 'cd "$1" 2>/dev/null && find . -path ./.cache -prune -o -type f -print'


def check(host: Host, folder: str) -> None:
    """Raises `WeightsError` naming the shards that are missing."""
    lacking = missing(host, folder)
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise WeightsError(
            f"{folder} is not complete: its index names {', '.join(lacking[:3])}{more}, which the"
            " repository does not have",
            hint="its owner may still be uploading: choose another revision after the `@`",
        )


def missing(host: Host, folder: str) -> list[str]:
    look = Run(argv=("sh", "-c", _LIST, "sh", folder), why="list the files of the weights")
    names = {normpath(line) for line in host.run(look).stdout.splitlines()}
    wanted: set[str] = set()
    for name in sorted(names):
        if name.endswith(".safetensors.index.json"):
            wanted |= {join(dirname(name), shard) for shard in _named(host, f"{folder}/{name}")}
    return sorted(wanted - names)


def _named(host: Host, path: str) -> set[str]:
    try:
        return set(json.loads(host.read(path) or b"")["weight_map"].values())
    except (ValueError, KeyError, AttributeError) as error:
        raise WeightsError(
            f"{path} is no index of shards: {error}",
            hint="remove it and run the same command again, or choose another revision",
        ) from None
