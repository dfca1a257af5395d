"""How long a server is asked again that may do better the next time."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import httpx
import stamina

TRIES = 8  # in a row without a single new byte
LONGEST_WAIT_S = 30.0
LONGEST_TOLD_S = 300.0  # a hub counts requests in windows of five minutes
logging.getLogger("stamina").addHandler(logging.NullHandler())  # or it writes on stderr


class Again(Exception):
    """The server may do better the next time; `wait_s` is what it asked for."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


def attempts() -> Iterator[stamina.Attempt]:
    """Each one is entered as a context; `Again` and a broken connection lead to the next."""
    return iter(
        stamina.retry_context(on=_patience, attempts=TRIES, timeout=None, wait_max=LONGEST_WAIT_S)
    )


def _patience(error: Exception) -> bool | float:
    if isinstance(error, Again) and error.wait_s is not None:
        return min(error.wait_s, LONGEST_TOLD_S)
    return isinstance(error, Again | httpx.TransportError)


def pause(tries: int, error: Again) -> float:
    """Seconds until the next try, for whoever has to be able to stop waiting."""
    if error.wait_s is not None:
        return min(error.wait_s, LONGEST_TOLD_S)
    return min(2.0**tries / 4, LONGEST_WAIT_S)
