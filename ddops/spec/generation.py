"""What was deployed and has passed its gate. Written last, so what it names is proven."""

from __future__ import annotations

from ddops.spec.base import Word
from ddops.spec.deployment import Deployment
from ddops.spec.packages import Environment

KEPT = 3
"""Generations that stay on a box; weights stay as long as the disk has room for them."""


class Generation(Word):
    """Everything that made a service what it was, but for secrets."""

    number: int
    deployment: Deployment
    unit: str
    env_sha256: str
    unit_sha256: str
    environment: Environment  # the packages of the engine's Python
    drivers: tuple[str, ...]  # of its GPUs, each once
    deployed_at: str  # UTC, ISO 8601
    ddops_version: str


class Generations(Word):
    """`generations.json` of a box, newest first. One file, so that it changes at once."""

    current: int  # the number of the one that serves
    kept: tuple[Generation, ...]

    @property
    def serving(self) -> Generation | None:
        return self.find(self.current)

    @property
    def before(self) -> Generation | None:
        """The one that served before `current`, if it is still kept."""
        return next((one for one in self.kept if one.number < self.current), None)

    def find(self, number: int) -> Generation | None:
        return next((one for one in self.kept if one.number == number), None)

    def proven(self, new: Generation) -> Generations:
        """`new` serves now. The same unit again is the same generation, proven once more."""
        serving = self.serving
        if serving and (serving.unit, serving.deployment) == (new.unit, new.deployment):
            again = new.model_copy(update={"number": serving.number})
            return self._with(again, [one for one in self.kept if one != serving])
        newest = max((one.number for one in self.kept), default=0)
        return self._with(new.model_copy(update={"number": newest + 1}), [*self.kept])

    def _with(self, serving: Generation, others: list[Generation]) -> Generations:
        newest_first = sorted(others, key=lambda one: -one.number)
        kept = sorted([serving, *newest_first[: KEPT - 1]], key=lambda one: -one.number)
        return Generations(current=serving.number, kept=tuple(kept))


NONE = Generations(current=0, kept=())
