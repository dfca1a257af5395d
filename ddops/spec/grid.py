"""A matrix as it is written: axes, values that move together, what comes besides, what stays out.

It becomes a `Matrix`, which lists what is measured: two spellings of the same cells are the same
matrix, with the same fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ddops.spec.base import Word
from ddops.spec.deployment import Mode
from ddops.spec.matrix import Matrix, Pace, Variant

T = TypeVar("T")


def _many(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


Many = Annotated[tuple[T, ...], BeforeValidator(_many)]
"""One value or a list of them."""


class Axes(Word):
    """Every combination of these values is a variant; a budget only means something to a tree."""

    mode: Many[Mode] = ()
    budget: Many[int] = ()
    adaptive: Many[bool] = ()
    graphs: Many[Literal["auto", "off"]] = ()
    nvls: Many[Literal["on", "off"]] = ()
    parallel: Many[Literal["tp", "ep"]] = ()


class Part(Word):
    """What of a variant is named; the rest comes from the axes, or is as the deployment has it."""

    mode: Mode | None = None
    budget: int | None = None
    adaptive: bool | None = None
    graphs: Literal["auto", "off"] | None = None
    nvls: Literal["on", "off"] | None = None
    parallel: Literal["tp", "ep"] | None = None


class Besides(Part):
    """A variant outside the axes, with a name of its own and at fewer paces if it wants to."""

    name: str | None = None
    concurrency: Many[int] = ()


class Without(Axes):
    """Cells that are not measured: those that have one of the values of every key."""

    name: Many[str] = ()
    concurrency: Many[int] = ()
    rate: Many[float] = ()


class Grid(Matrix):
    """Every key of a matrix file. Repeats and the last look at the first cell are the default."""

    variants: tuple[Variant, ...] = ()
    repeats: int = Field(default=3, ge=1)
    again: bool = True
    axes: Axes = Axes()
    linked: tuple[tuple[Part, ...], ...] = ()
    include: tuple[Besides, ...] = ()
    exclude: tuple[Without, ...] = ()

    @model_validator(mode="after")
    def _makes_cells(self) -> Self:
        self.matrix()
        return self

    def matrix(self) -> Matrix:
        """Raises `ValueError` where the keys do not make one."""
        variants = [*self.variants, *_combined(self.axes, self.linked)]
        rare: dict[str, tuple[int, ...]] = {}
        for one in self.include:
            own = _variant(one.model_dump(exclude={"name", "concurrency"}), one.name)
            variants.append(own)
            if one.concurrency:
                rare[own.name] = one.concurrency
        listed = tuple(dict.fromkeys(variants))
        _refuse(listed)
        fields = {name: getattr(self, name) for name in Matrix.model_fields}
        whole = Matrix(**{**fields, "variants": listed})
        return _without(whole, {*self.left_out, *self._out(whole, rare)})

    def _out(self, whole: Matrix, rare: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
        fitting: set[int] = set()
        for variant, pace in product(whole.variants, whole.paces):
            out = [n for n, one in enumerate(self.exclude) if _fits(one, variant, pace)]
            fitting.update(out)
            only = rare.get(variant.name)
            if out or (only and pace.concurrency not in only):
                yield f"{variant.name}.{pace.rung}"
        for number in range(len(self.exclude)):
            if number not in fitting:
                raise ValueError(f"`exclude[{number}]` fits no cell")
        for name, only in rare.items():
            if missing := set(only) - set(whole.concurrency):
                raise ValueError(
                    f"`{name}` wants C={min(missing)}, which `concurrency` does not have"
                )


def _combined(axes: Axes, linked: tuple[tuple[Part, ...], ...]) -> Iterator[Variant]:
    """In the order written, the last axis fastest; what is the same twice is there once."""
    named = {name: values for name in Axes.model_fields if (values := getattr(axes, name))}
    rails = [[{name: value} for value in values] for name, values in named.items()]
    rails += [[part.model_dump(exclude_none=True) for part in parts] for parts in linked]
    for parts in product(*rails) if rails else ():
        twice = [key for key in Part.model_fields if sum(key in part for part in parts) > 1]
        if twice:
            raise ValueError(f"two axes set `{twice[0]}`")
        yield _variant({key: value for part in parts for key, value in part.items()}, None)


def _without(whole: Matrix, out: set[str]) -> Matrix:
    """A variant that is measured nowhere is no part of it."""
    rungs = {v: {f"{v.name}.{pace.rung}" for pace in whole.paces} for v in whole.variants}
    kept = {variant: cells for variant, cells in rungs.items() if cells - out}
    if not kept:
        raise ValueError("`exclude` leaves no cell to measure")
    left_out = sorted(cell for cells in kept.values() for cell in cells & out)
    return whole.model_copy(update={"variants": tuple(kept), "left_out": tuple(left_out)})


def _variant(settings: Mapping[str, Any], name: str | None) -> Variant:
    given = {key: value for key, value in settings.items() if value is not None}
    if "mode" not in given:
        raise ValueError("a variant has no `mode`: name it under `axes`, `linked` or `include`")
    if given["mode"] != "ddtree":
        given.pop("budget", None)
        given.pop("adaptive", None)
    try:
        found = Variant(name=name or given["mode"], **given)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise ValueError(f"`{first['loc'][0]}`: {first['msg']}") from None
    return found if name else found.model_copy(update={"name": found.described})


def _refuse(variants: tuple[Variant, ...]) -> None:
    if not variants:
        raise ValueError("name `variants`, `axes` or `include`: what is to be measured")
    for number, one in enumerate(variants):
        if any(one.name == other.name for other in variants[:number]):
            raise ValueError(f"two variants are called `{one.name}`")


def _fits(one: Without, variant: Variant, pace: Pace) -> bool:
    has = {**variant.model_dump(), "concurrency": pace.concurrency, "rate": pace.rate}
    keys = [name for name in Without.model_fields if getattr(one, name)]
    return bool(keys) and all(has[name] in getattr(one, name) for name in keys)
