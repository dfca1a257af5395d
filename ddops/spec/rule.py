"""A rule: when it applies, and what follows. The table of them is `ddops/rules/table.yaml`."""

from __future__ import annotations

from pydantic import Field, model_validator

from ddops.spec.argument import Sure
from ddops.spec.base import Word


class Rule(Word):
    """Exactly one thing follows: flags and variables are set, a wish is refused, or it is said.

    `when` and `require` are expressions over `spec.situation.Situation`; values of `set` and `env`
    may hold `{{ expressions }}`. A value of None is a switch.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    when: str
    set: dict[str, str | int | float | None] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    require: str | None = None
    say: bool = False  # nothing is set or refused; `why` is shown
    instead: str | None = None  # `require`: what to do about it
    why: str
    source: str
    sure: Sure

    @model_validator(mode="after")
    def _one_thing_follows(self) -> Rule:
        if sum((bool(self.set or self.env), self.require is not None, self.say)) != 1:
            raise ValueError("a rule has either `set` and `env`, or `require`, or `say`")
        if (self.require is None) != (self.instead is None):
            raise ValueError("`require` and `instead` come together")
        return self


class Table(Word):
    rules: tuple[Rule, ...]

    @model_validator(mode="after")
    def _names_are_unique(self) -> Table:
        names = [rule.name for rule in self.rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two rules are called {', '.join(twice)}")
        return self
