"""What a flow may say while it works. The CLI's output object is one; `Silent` is another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol

from ddops.host.base import Progress

Measure = Literal["bytes", "items"]


class Voice(Protocol):
    def say(self, text: str) -> None:
        """One line for the user, unless they asked for quiet."""

    def detail(self, text: str) -> None:
        """One line for the user who asked for more."""

    def warn(self, text: str) -> None:
        """One line that is shown even when quiet."""

    def step(self, title: str, *, of: Measure = "items") -> AbstractContextManager[Progress]:
        """Show that `title` is being done, and how far it is."""


class Silent:
    """Says nothing: for tests and for callers that are not a terminal."""

    def say(self, text: str) -> None:
        pass

    def detail(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        pass

    @contextmanager
    def step(self, title: str, *, of: Measure = "items") -> Iterator[Progress]:
        yield lambda done, total: None
