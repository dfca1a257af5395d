"""The shipped data of the cost model, by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from ddops.errors import UsageError
from ddops.spec.cost import Catalogue, FieldRecord, Link, Processor, Target
from ddops.spec.load import parse


@cache
def catalogue() -> Catalogue:
    return parse(_text("catalogue.yaml"), Catalogue, "ddops/analysis/cost/catalogue.yaml")


@cache
def field_record() -> FieldRecord:
    return parse(_text("field.yaml"), FieldRecord, "ddops/analysis/cost/field.yaml")


def target(name: str) -> Target:
    """Raises `UsageError` for a model that is not listed."""
    known = {each.name: each for each in catalogue().targets}
    if name not in known:
        raise _unknown("model", name, list(known))
    return known[name]


def processor(name: str) -> Processor:
    """Raises `UsageError` for a GPU that is not listed."""
    known = {each.name: each for each in catalogue().processors}
    if name not in known:
        raise _unknown("GPU", name, list(known))
    return known[name]


def recognised(driver_name: str) -> Processor | None:
    """The GPU that the driver calls so."""
    return next((p for p in catalogue().processors if p.driver_name in driver_name), None)


def link(of: Processor) -> Link:
    return next(each for each in catalogue().links if each.name == of.link)


def _text(name: str) -> str:
    return (files("ddops.analysis.cost") / name).read_text("utf-8")


def _unknown(what: str, name: str, known: Sequence[str]) -> UsageError:
    near = difflib.get_close_matches(name, known, n=1)
    return UsageError(
        f"the cost model knows no {what} `{name}`",
        detail=f"known: {', '.join(known)}",
        hint=f"did you mean `{near[0]}`?"
        if near
        else "measure instead, and name what was measured: `ddops estimate --from RUN_DIR`",
    )
