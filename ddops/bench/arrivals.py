"""When the requests of an open loop are sent: at random moments, or at the times of a trace."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from ddops.errors import SpecError
from ddops.spec.base import Word

_EXAMPLE = '{"at_s": 1.5, "prompt": "...", "max_tokens": 64}'
_HINT = f"a line of a trace is `{_EXAMPLE}`; instead of `prompt` it may have `input_tokens`"
_MOONCAKE = {"timestamp": "at_s", "input_length": "input_tokens", "output_length": "max_tokens"}


class Send(Word):
    """One request of a trace; what is None is as the load has it."""

    at_s: float = Field(ge=0, allow_inf_nan=False)
    prompt: str | None = Field(default=None, min_length=1)
    input_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.prompt is not None and self.input_tokens is not None:
            raise ValueError("has both a `prompt` and `input_tokens`")
        return self


@dataclass(frozen=True)
class SendTimes:
    sha256: str  # of the file
    sends: tuple[Send, ...]  # in the order of time, the first at 0


def poisson(count: int, rate: float, seed: int) -> tuple[float, ...]:
    """`count` moments from 0 on, `rate` a second on average.

    The gaps are exponential, then scaled to end at (count - 1) / rate: of 20 requests the asked
    rate would otherwise be missed by a fifth, as chance has it.
    """
    dice = random.Random(seed)
    gaps = [dice.expovariate(1.0) for _ in range(count - 1)]
    scale = (count - 1) / rate / sum(gaps) if gaps else 0.0
    return tuple(accumulate((gap * scale for gap in gaps), initial=0.0))


def read_trace(path: Path) -> SendTimes:
    """JSON lines: our own, or `timestamp` in ms with `input_length` and `output_length`."""
    try:
        data = path.read_bytes()
        lines = data.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read: {error}", hint=_HINT) from None
    sends = [_send(line, f"{path}:{n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not sends:
        raise SpecError(f"{path} names no request", hint=_HINT)
    ordered = sorted(sends, key=lambda send: send.at_s)
    first = ordered[0].at_s
    shifted = (send.model_copy(update={"at_s": send.at_s - first}) for send in ordered)
    return SendTimes(hashlib.sha256(data).hexdigest(), tuple(shifted))


def _send(line: str, where: str) -> Send:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise SpecError(f"{where}: is not JSON: {error}", hint=_HINT) from None
    if not isinstance(row, dict):
        raise SpecError(f"{where}: is not an object", hint=_HINT)
    try:
        return Send.model_validate(_ours(row) if "timestamp" in row else row)
    except (ValidationError, TypeError) as error:
        said = error.errors()[0] if isinstance(error, ValidationError) else None
        place = ".".join(map(str, said["loc"])) + ": " if said and said["loc"] else ""
        message = said["msg"].removeprefix("Value error, ") if said else str(error)
        raise SpecError(f"{where}: {place}{message}", hint=_HINT) from None


def _ours(row: dict[str, Any]) -> dict[str, Any]:
    """What traces of Mooncake's shape have besides, such as hashes of blocks, is left."""
    named = {ours: row[theirs] for theirs, ours in _MOONCAKE.items() if theirs in row}
    return {**named, "at_s": named["at_s"] / 1000}
