"""A box with the hands that reach it: what every flow starts from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from pydantic import ValidationError

from ddops.facts import look
from ddops.host.base import Host
from ddops.host.open import open_host, place_of
from ddops.spec.box import Box
from ddops.spec.generation import NONE, Generation, Generations
from ddops.spec.load import load_box
from ddops.spec.observed import Service, Supervisor
from ddops.spec.place import Place


@dataclass(frozen=True)
class Site:
    host: Host
    box: Box

    @property
    def place(self) -> Place:
        return place_of(self.host, self.box)

    @cached_property
    def supervisor(self) -> Supervisor:
        """Asked for once: it is the same for as long as a command of ours runs."""
        return look.supervisor(look.look_system(self.host, self.place))

    def service(self) -> Service:
        return look.look_service(self.host, self.place, self.supervisor)

    def generation(self) -> Generation | None:
        """What is deployed and passed its gate."""
        return self.generations().serving

    def generations(self) -> Generations:
        """The last that passed their gates. A damaged note counts as none."""
        text = self.host.read(self.place.generations)
        try:
            return Generations.model_validate_json(text) if text is not None else NONE
        except ValidationError:
            return NONE


@contextmanager
def opened(
    name: str, *, pin: str | None = None, overrides: Sequence[str] | None = None
) -> Iterator[Site]:
    """`name` is an inventory's name or path; `pin` the fingerprint that its key must have.

    `overrides`: rules that must not speak. They join the deployment, so they are recorded with it.
    """
    with reached(_overriding(load_box(name), overrides or ()), pin=pin) as site:
        yield site


@contextmanager
def reached(box: Box, *, pin: str | None = None) -> Iterator[Site]:
    host = open_host(box, pin=pin)
    try:
        yield Site(host, box)
    finally:
        host.close()


def _overriding(box: Box, rules: Sequence[str]) -> Box:
    wish = box.deployment
    overrides = tuple(dict.fromkeys((*wish.overrides, *rules)))
    return box.model_copy(update={"deployment": wish.model_copy(update={"overrides": overrides})})
