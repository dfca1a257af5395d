"""Sentences as data: what somebody states of records, so that it can be checked against them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ddops.spec.base import Word

ClaimKind = Literal["value", "ratio", "difference", "more", "maximum", "minimum"]
FigureName = Literal["output_tok_s", "accept", "ttft_p50_s", "tpot_p50_s", "coding", "value"]

_WITH_NUMBER = ("value", "ratio", "difference")
_PAIRED = ("ratio", "difference", "more")


class StatedClaim(Word):
    """One sentence, and the arithmetic that would bear it out.

    `value`       each figure of `of` is `stated`
    `ratio`       each figure of `of` over that of `base` at the same place is `stated`
    `difference`  each figure of `of` less that of `base` at the same place is `stated`
    `more`        each figure of `of` is above that of `base` at the same place
    `maximum`     the figure of `of` is above, `minimum` below, every one of `base`
    """

    says: str
    kind: ClaimKind
    of: tuple[str, ...] = Field(min_length=1)  # names of records
    base: tuple[str, ...] = ()
    figure: FigureName = "output_tok_s"
    stated: float | None = None
    tolerance: float | None = Field(default=None, ge=0)  # how far off still bears it out

    @model_validator(mode="after")
    def _it_can_be_worked_out(self) -> StatedClaim:
        numbers = (self.stated is not None) + (self.tolerance is not None)
        if numbers != (2 if self.kind in _WITH_NUMBER else 0):
            with_number = ", ".join(_WITH_NUMBER)
            raise ValueError(f"`stated` and `tolerance` belong to {with_number}, and to no other")
        if self.kind in _PAIRED and len(self.base) != len(self.of):
            raise ValueError(f"a {self.kind} needs as many records in `base` as in `of`")
        if self.kind == "value" and self.base:
            raise ValueError("a value has no `base`")
        if self.kind in ("maximum", "minimum") and (len(self.of) != 1 or not self.base):
            raise ValueError(f"a {self.kind} is one record in `of`, and the others in `base`")
        return self


class Claims(Word):
    records: str  # a run's folder, a bundle or a transcript; relative to this file
    claims: tuple[StatedClaim, ...] = Field(min_length=1)
