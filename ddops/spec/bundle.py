"""What a bundle says about itself, besides the records it holds."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from ddops.spec.base import Word, is_none
from ddops.spec.run import BasedOn

BUNDLE_SCHEMA_VERSION: Final = 2


class BundleInfo(Word):
    """`data/bundle.json`. No date of packing: the same run gives the same bundle."""

    schema_version: Literal[1, 2]
    name: str
    ddops_version: str  # that packed it
    commit: str | None  # of the checkout that measured last
    created: str  # when the last cell was measured; UTC, ISO 8601
    box: str
    matrix: str
    fingerprint: str
    based_on: BasedOn | None = Field(default=None, exclude_if=is_none)  # what this is a replay of


class WeightsFile(Word):
    """One file a result depends on and a bundle does not carry."""

    role: Literal["model", "drafter"]
    name: str
    source: str
    sha256: str | None
    size: int | None  # bytes
    licence: str | None


class WeightsPart(Word):
    """A file of a set of weights as it lay on the box, and where the same is to be had."""

    role: Literal["model", "drafter"]
    path: str  # below the folder of the set
    url: str | None
    sha256: str | None
    size: int  # bytes


class Redaction(Word):
    """What was taken out of a file, never what it was."""

    file: str
    kind: str
    count: int
