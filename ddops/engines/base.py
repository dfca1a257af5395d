"""What ddops has to know of an engine. One value an engine; everything else is rules or HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddops.spec.argument import Argument
from ddops.spec.deployment import Deployment, EngineName


@dataclass(frozen=True)
class Paths:
    """What the engine is given, as it lies on the box."""

    model: str
    drafter: str | None  # None: comes with the engine, or is not wished


@dataclass(frozen=True)
class Counters:
    """What an engine calls the counters that speculation is judged by; None where it has none.

    An engine that does not count `accepted` counts `finished` requests: the first token of each
    comes from its prompt, all others from verify steps, which give one more than they accept.
    """

    steps: str  # verify steps, one per sequence and target forward
    generated: str  # tokens
    drafted: str | None = None
    accepted: str | None = None
    per_position: str | None = None  # accepted drafts with a label `position`
    finished: str | None = None  # requests
    by_budget: str | None = None  # steps with a label `budget`


@dataclass(frozen=True)
class Engine:
    name: EngineName
    package: str  # the distribution that has its version
    needed: tuple[str, ...]  # modules that its Python must have
    install: str  # what installs it
    serve: tuple[str, ...]  # the command line after the interpreter
    help: tuple[str, ...]  # the same, for the list of its options
    arguments: Callable[[Deployment, Paths], list[Argument]]  # what follows from the wish alone
    ready: str  # the path that answers 200 once tokens can be had
    info: str  # the path that says what is served, or at least the version
    notifies: bool  # tells systemd when that is so
    caches_at_home: bool  # writes below the home folder, whatever XDG_CACHE_HOME says
    final_exit_codes: tuple[int, ...]  # starting again would end the same
    key_variable: str | None  # of the environment; None: takes no key that way
    counters: Counters

    def argv(self, python: str, arguments: Sequence[Argument]) -> tuple[str, ...]:
        words = (word for one in arguments for word in (one.flag, one.value) if word)
        return (python, *self.serve, *words)


def asked(flag: str, value: object, why: str) -> Argument:
    return Argument(flag=flag, value=str(value), why=why)


def address(host: str) -> Argument:
    loopback = host in ("127.0.0.1", "::1", "localhost")
    why = "reachable from this machine only" if loopback else "open to others, so it has a key"
    return asked("--host", host, why)
