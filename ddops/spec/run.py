"""`run.json`: what all records of one matrix share. Written before the first cell is measured."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ddops.spec.base import Word, is_none
from ddops.spec.deployment import Deployment
from ddops.spec.matrix import Matrix
from ddops.spec.record import EngineSeen

RUN_SCHEMA_VERSION = 1


class PromptsSeen(Word):
    id: str
    licence: str
    sha256: str  # of the file
    count: int
    trace_sha256: str | None = None  # of the file of send times, where the matrix names one


class Session(Word):
    """One start of `ddops bench`; a resumed matrix has several."""

    started_at: str  # UTC, ISO 8601
    ddops_version: str
    commit: str | None
    command: tuple[str, ...]


class Served(Word):
    """What ran while the cells of one variant were measured."""

    unit: str  # text of the rendered unit
    unit_sha256: str
    engine: EngineSeen | None


class BasedOn(Word):
    """The bundle that a run repeats."""

    name: str
    sha256: str  # of its tag manifest, which pins every file of it
    drift: tuple[str, ...]  # what was known to differ when it began


class Run(Word):
    schema_version: Literal[1]
    matrix: Matrix
    fingerprint: str
    box: str
    box_facts: dict[str, Any]
    box_facts_sha256: str
    found: Deployment  # what the box served before, and serves again afterwards
    prompts: PromptsSeen
    sessions: tuple[Session, ...]
    served: dict[str, Served]  # by variant
    based_on: BasedOn | None = Field(default=None, exclude_if=is_none)
