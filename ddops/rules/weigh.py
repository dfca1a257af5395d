"""What the table says about a situation: flags and variables with reasons, and what it forbids."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ddops.errors import SpecError, UsageError
from ddops.rules import expression
from ddops.spec.argument import Argument, Reason, Setting
from ddops.spec.base import Word
from ddops.spec.load import parse, read
from ddops.spec.rule import Rule, Table
from ddops.spec.situation import Situation


class Broken(Reason):
    """A wish that a rule does not allow."""

    instead: str


class Advice(Word):
    arguments: tuple[Argument, ...]
    settings: tuple[Setting, ...]
    broken: tuple[Broken, ...]
    overridden: tuple[Reason, ...]  # rules that would have spoken, and were told not to
    notes: tuple[Reason, ...]


def table(folder: Path | None = None) -> tuple[Rule, ...]:
    """The shipped rules, then those of `folder`/rules, whose expressions are checked.

    Raises `SpecError` for a mistake in one, and for two of one name.
    """
    found = sorted((folder / "rules").glob("*.yaml")) if folder else []
    own = tuple(rule for file in found for rule in checked(read(file, Table)).rules)
    names = Counter(rule.name for rule in (*shipped(), *own))
    if twice := [name for name, count in names.items() if count > 1]:
        raise SpecError(f"rule `{twice[0]}` is there twice", hint="rename the one in `rules/`")
    return (*shipped(), *own)


def checked(rules: Table) -> Table:
    for rule in rules.rules:
        expression.check(rule)
    return rules


@cache
def shipped() -> tuple[Rule, ...]:
    """A test has checked their expressions: that takes as long as all else here, at every start."""
    file = files("ddops.rules") / "table.yaml"
    return parse(file.read_text("utf-8"), Table, "ddops/rules/table.yaml").rules


def weigh(rules: Sequence[Rule], situation: Situation, overrides: Sequence[str] = ()) -> Advice:
    """Raises `UsageError` for an override of no rule."""
    _check_overrides(rules, overrides)
    names = expression.names_of(situation)
    arguments: list[Argument] = []
    settings: list[Setting] = []
    broken: list[Broken] = []
    overridden: list[Reason] = []
    notes: list[Reason] = []
    speaking = expression.which_hold([rule.when for rule in rules], names)
    for rule in itertools.compress(rules, speaking):
        if rule.require is not None and expression.holds(rule.require, names):
            continue
        reason = _reason(rule, names)
        if rule.name in overrides:
            overridden.append(Reason(**reason))
        elif rule.say:
            notes.append(Reason(**reason))
        elif rule.instead is not None:
            broken.append(Broken(**reason, instead=expression.filled(rule.instead, names)))
        arguments += () if rule.name in overrides else _arguments(rule, names, reason)
        settings += () if rule.name in overrides else _settings(rule, names, reason)
    _check_contradictions(arguments)
    return Advice(
        arguments=tuple(arguments),
        settings=tuple(settings),
        broken=tuple(broken),
        overridden=tuple(overridden),
        notes=tuple(notes),
    )


def _reason(rule: Rule, names: dict[str, Any]) -> dict[str, Any]:
    why = expression.filled(rule.why, names)
    return {"why": why, "source": rule.source, "sure": rule.sure, "rule": rule.name}


def _arguments(rule: Rule, names: dict[str, Any], reason: dict[str, Any]) -> list[Argument]:
    return [
        Argument(flag=flag, value=_value(value, names), **reason)
        for flag, value in rule.set.items()
    ]


def _settings(rule: Rule, names: dict[str, Any], reason: dict[str, Any]) -> list[Setting]:
    return [
        Setting(name=name, value=expression.filled(value, names), **reason)
        for name, value in rule.env.items()
    ]


def _value(value: str | float | None, names: dict[str, Any]) -> str:
    return "" if value is None else expression.filled(str(value), names)


def _check_overrides(rules: Sequence[Rule], overrides: Sequence[str]) -> None:
    known = [rule.name for rule in rules]
    for name in overrides:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"there is no rule `{name}` to override",
                detail=f"rules: {', '.join(known)}",
                hint=f"did you mean `{near[0]}`?"
                if near
                else "`ddops explain BOX` names those that speak",
            )


def _check_contradictions(arguments: Sequence[Argument]) -> None:
    """Two rules about one flag are a fault of the table, whatever the wish."""
    said: dict[str, Argument] = {}
    for one in arguments:
        other = said.setdefault(one.flag, one)
        if other.value != one.value:
            raise SpecError(
                f"rules `{other.rule}` and `{one.rule}` contradict each other about {one.flag}",
                hint="override one of them with `--override RULE`",
            )
