"""The other ranks, as the first one's engine sees them: told what to do, and watched. No torch."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ddtree.config import EngineConfig

_SECRET = "DDTREE_API_KEY"  # the server's alone


@dataclass(frozen=True)
class Errand:
    """What a rank is started for. `folder` is where the ranks find each other."""

    config: EngineConfig
    rank: int
    folder: Path


class Others(Protocol):
    def tell(self, order: object) -> None:
        """Have every other rank do what this one is about to do."""

    def explain(self, error: Exception) -> str:
        """Why this rank failed: another one's death shows first as an error of our own."""

    def close(self, release: Callable[[], None]) -> None:
        """End them, and wait until they have ended. `release` lets go of our own graphs."""


class Nobody:
    """There is one rank."""

    def tell(self, order: object) -> None:
        """Nobody listens."""

    def explain(self, error: Exception) -> str:
        return reason(error)

    def close(self, release: Callable[[], None]) -> None:
        """Nobody is there."""


def reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def ending(code: int) -> str:
    """Of a process, by the code that `Popen` gives."""
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"


def environment() -> dict[str, str]:
    """What a process that computes gets of our own."""
    return {name: value for name, value in os.environ.items() if name != _SECRET}


NOBODY = Nobody()
