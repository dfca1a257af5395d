"""The language of rules: Jinja expressions over a `Situation`, in a sandbox. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment
from packaging.version import InvalidVersion, Version

from ddops.errors import SpecError
from ddops.spec.rule import Rule
from ddops.spec.situation import Situation

NAMES = frozenset({*Situation.model_fields, "tree", "offers"})
"""What an expression may ask about: a mistyped name is found when the table is read."""


def since(version: str | None, first: str) -> bool:
    """False for a version that nobody knows: then neither `since` nor `before` holds."""
    known = _version(version)
    return known is not None and known >= Version(first)


def before(version: str | None, first: str) -> bool:
    known = _version(version)
    return known is not None and known < Version(first)


def names_of(situation: Situation) -> dict[str, Any]:
    """The values an expression sees."""

    def offers(flag: str) -> bool:
        """Whether the engine is known to have `flag`."""
        return situation.flags is not None and flag in situation.flags

    return {**dict(situation), "tree": situation.tree, "offers": offers}


def holds(expression: str, names: dict[str, Any]) -> bool:
    return bool(_compiled(expression)(**names))


def which_hold(expressions: Sequence[str], names: dict[str, Any]) -> list[bool]:
    """`holds` of each. As one expression: 70 rules are read in half of the time."""
    together = "".join(f"({expression})," for expression in expressions)
    return [bool(value) for value in _compiled(f"({together})")(**names)]


def filled(text: str, names: dict[str, Any]) -> str:
    return _template(text).render(names)


def check(rule: Rule) -> None:
    """Raises `SpecError` for an expression that does not parse or asks about nothing known."""
    values = [str(value) for value in rule.set.values() if value is not None]
    expressions = [f"{{{{ {text} }}}}" for text in (rule.when, rule.require) if text]
    for text in (*expressions, *values, *rule.env.values(), rule.why, rule.instead or ""):
        try:
            unknown = meta.find_undeclared_variables(_environment().parse(text)) - NAMES
        except TemplateError as error:
            raise SpecError(f"rule `{rule.name}`: {error.message} in `{text}`") from None
        if unknown:
            raise SpecError(
                f"rule `{rule.name}` asks about {', '.join(sorted(unknown))}",
                hint=f"known are {', '.join(sorted(NAMES))}",
            )


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    environment.tests |= {"since": since, "before": before}
    return environment


@cache
def _compiled(expression: str) -> Callable[..., Any]:
    return _environment().compile_expression(expression, undefined_to_none=False)


@cache
def _template(text: str) -> Template:
    return _environment().from_string(text)


def _version(text: str | None) -> Version | None:
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None
