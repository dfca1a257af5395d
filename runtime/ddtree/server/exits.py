"""How `serve` ends: exit codes that scripts and supervisors may rely on (docs/architecture.md)."""

from __future__ import annotations

DRAINED = 0  # after SIGTERM or SIGINT
DIED = 1  # the engine failed; a supervisor should start it again
BAD_ARGUMENTS = 2
CANNOT_LOAD = 3  # model or drafter
OUT_OF_MEMORY = 4
PORT_IN_USE = 5
RANK_DIED = 6  # one of several processes that share the model; as with 1, start it again

_RANK_WORDS = "rank "
_MEMORY_WORDS = ("out of memory", "outofmemory", "memoryerror", "capacityerror")


class LoadError(Exception):
    """There will be no engine; the process ends with `exit_code`."""

    def __init__(self, message: str, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.hint = hint


def exit_code(reason: str, otherwise: int) -> int:
    """For a failure that is known by its words only: memory and ranks have codes of their own."""
    lowered = reason.lower()
    if any(word in lowered for word in _MEMORY_WORDS):
        return OUT_OF_MEMORY
    return RANK_DIED if lowered.startswith(_RANK_WORDS) else otherwise
