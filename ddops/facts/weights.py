"""Which files of a set of weights lie on the box, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import ValidationError

from ddops.spec.command import Run
from ddops.spec.observed import Artefact, Offer
from ddops.spec.place import Place


def command(place: Place, paths: Sequence[str]) -> Run:
    return Run(
        argv=(place.python, "-m", "ddops.host.manifest", "look", *paths),
        why="look at the weights",
        timeout_s=None,  # a changed file is read again, and it may be large
    )


def parse(text: str) -> tuple[Artefact, ...]:
    return tuple(Artefact.model_validate(one) for one in json.loads(text) if one is not None)


def parse_offer(text: bytes | None) -> Offer | None:
    """A listing that cannot be read is as good as none: the source is asked again."""
    try:
        return Offer.model_validate_json(text) if text is not None else None
    except ValidationError:
        return None
