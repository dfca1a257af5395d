"""Figures copied from somebody's write-up. No record: nothing here can be derived again."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ddops.spec.base import Word
from ddops.spec.matrix import Variant
from ddops.spec.record import FailureKind

TRANSCRIPT = "records.yaml"
"""The file of a folder that makes it a transcript."""

_NAME = r"^[a-z0-9][a-z0-9.-]*$"


class Span(Word):
    """Where a write-up gives no single number."""

    low: float
    high: float


class Passed(Word):
    """How many of a set of problems the answers solved."""

    passed: int = Field(ge=0)
    of: int = Field(ge=1)


class Symptom(Word):
    """How a configuration failed: what is known of it is one line, and no log."""

    kind: FailureKind
    message: str


class TranscribedCell(Word):
    """What is said of one configuration; every absent figure was not told."""

    variant: Variant
    concurrency: int | None = Field(default=None, ge=1)  # None: not told at which, or of all
    writeup: str | None = None  # where several write-ups differ: the one that says this
    output_tok_s: float | None = None
    accept: float | Span | None = None
    coding: Passed | None = None
    failure: Symptom | None = None

    @property
    def id(self) -> str:
        concurrency = f"c{self.concurrency}" if self.concurrency else None
        return ".".join(filter(None, (self.variant.name, concurrency, self.writeup)))


class Figure(Word):
    """A number that belongs to no cell."""

    name: str = Field(pattern=_NAME)
    value: float | Span
    unit: str
    about: str
    box: str | None = None  # which box it is of, where there are several


class Power(Word):
    """What one GPU drew while it decoded."""

    drawn_w: Span
    limit_w: float
    utilisation: float  # as the driver tells it, 0 to 1


class Constraint(Word):
    """A limit that was run into: where, and how it showed."""

    name: str = Field(pattern=_NAME)
    limit: str
    where: str
    symptom: str


class Transcript(Word):
    """A measuring campaign of others, as it was written up. Raw requests do not exist."""

    schema_version: Literal[1]
    kind: Literal["transcribed"]
    source: str
    box: str
    flags: tuple[str, ...]  # as far as the command is told
    method: tuple[str, ...]  # what was measured, in sentences
    deployed: tuple[str, ...]  # the steps that made it work, in order
    cells: tuple[TranscribedCell, ...]
    power: Power
    figures: tuple[Figure, ...]
    constraints: tuple[Constraint, ...]
    next: tuple[str, ...]  # what its writers asked for

    @model_validator(mode="after")
    def _everything_has_a_name_of_its_own(self) -> Transcript:
        names = [*(cell.id for cell in self.cells), *(figure.name for figure in self.figures)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two cells or figures are called {', '.join(twice)}")
        return self
