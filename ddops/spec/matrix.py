"""The cells of a benchmark: which configurations, at which pace, over which prompts."""

from __future__ import annotations

import hashlib
import json
from typing import Literal, Self

from pydantic import Field, model_validator

from ddops.spec.base import Word, is_none
from ddops.spec.deployment import Mode

Arrivals = Literal["closed", "poisson", "trace"]
"""When requests are sent: each as an answer ends; at random moments at a rate; at written times."""

PromptFormat = Literal["humaneval", "gsm8k", "mt-bench", "sharegpt", "speed-bench"]


def _is_unset(value: object) -> bool:
    return not value


def _is_closed(value: object) -> bool:
    return value == "closed"


class Variant(Word):
    """One configuration of the service; what is None stays as the deployment has it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    mode: Mode
    budget: int | None = Field(default=None, ge=1, le=256)
    adaptive: bool = False
    graphs: Literal["auto", "off"] | None = None
    # Not written where they are None: fingerprints of matrices from before them stay.
    nvls: Literal["on", "off"] | None = Field(default=None, exclude_if=is_none)
    parallel: Literal["tp", "ep"] | None = Field(default=None, exclude_if=is_none)

    @property
    def described(self) -> str:
        """`ddtree-b8-eager-nvls`: what differs from the usual stands in it."""
        words = [
            f"b{self.budget}" if self.budget else "",
            "adaptive" if self.adaptive else "",
            "eager" if self.graphs == "off" else "",
            "nvls" if self.nvls == "on" else "",
            self.parallel or "",
        ]
        return "-".join((self.mode, *filter(None, words)))


class Pace(Word):
    """How requests come, one rung of a ladder."""

    arrivals: Arrivals = "closed"
    concurrency: int = 0  # requests in flight in a closed loop; an open one has no limit
    rate: float | None = None  # requests a second, of `poisson`

    def __str__(self) -> str:
        if self.arrivals == "closed":
            return f"C={self.concurrency}"
        return f"{self.rate:g}/s" if self.rate is not None else self.arrivals

    @property
    def rung(self) -> str:
        """As it stands in the id of a cell."""
        if self.arrivals == "closed":
            return f"c{self.concurrency}"
        return f"q{self.rate:g}" if self.rate is not None else self.arrivals


class Slo(Word):
    """What an answer must keep to be counted as good; None asks for nothing."""

    ttft_s: float | None = Field(default=None, gt=0)
    tpot_s: float | None = Field(default=None, gt=0)
    itl_s: float | None = Field(default=None, gt=0)  # of the answer's slowest token
    e2e_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if all(limit is None for limit in self.model_dump().values()):
            raise ValueError("name at least one of `ttft_s`, `tpot_s`, `itl_s`, `e2e_s`")
        return self


class Load(Word):
    prompts: str = "coding"  # a shipped set by name, or a file's path
    requests: int = Field(ge=1)  # measured requests per cell, at least
    warmup: int = Field(ge=0)  # requests before the window, not measured
    max_tokens: int = Field(ge=1)
    temperature: float = Field(default=0.0, ge=0.0)
    seed: int = 0
    # As above: not written where they are not set.
    format: PromptFormat | None = Field(default=None, exclude_if=is_none)  # None: by its look
    sample: int | None = Field(default=None, ge=1, exclude_if=is_none)  # prompts drawn by the seed
    longest: int | None = Field(default=None, ge=1, exclude_if=is_none)  # characters of a prompt
    licence: str | None = Field(default=None, exclude_if=is_none)  # where the file states none
    settle_s: float = Field(default=0.0, ge=0, exclude_if=_is_unset)  # sent but not measured
    drain_s: float = Field(default=0.0, ge=0, exclude_if=_is_unset)  # the same, before the last
    slo: Slo | None = Field(default=None, exclude_if=is_none)
    requests_a_stream: int | None = Field(default=None, ge=1, exclude_if=is_none)  # closed loops

    def asked(self, pace: Pace) -> int:
        """Measured requests of a cell at this pace."""
        return max(self.requests, (self.requests_a_stream or 0) * pace.concurrency)


class CodingAsked(Word):
    """Problems that every cell is given after its window, to see whether it still can."""

    problems: str = "five"  # a shipped set by name, or the path of a file in HumanEval's shape
    first: int | None = Field(default=None, ge=1)  # so many of them; None: all
    max_tokens: int = Field(default=768, ge=1)
    at_least: int | None = Field(default=None, ge=0)  # solved; fewer make a speed invalid


class Matrix(Word):
    """What is measured, cell by cell. `spec.grid.Grid` is how it is written."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    variants: tuple[Variant, ...] = Field(min_length=1)
    concurrency: tuple[int, ...] = ()
    rates: tuple[float, ...] = Field(default=(), exclude_if=_is_unset)  # requests a second
    trace: str | None = Field(default=None, exclude_if=is_none)  # a file of send times
    load: Load
    repeats: int = Field(default=1, ge=1)
    order: Literal["repeated", "randomised"] = "repeated"
    timeout_s: float = Field(default=900.0, gt=0)  # for one cell
    left_out: tuple[str, ...] = Field(default=(), exclude_if=_is_unset)  # `ddtree-b32.c128`
    order_seed: int = Field(default=0, exclude_if=_is_unset)  # of `randomised`
    cooldown_s: float = Field(default=0.0, ge=0, exclude_if=_is_unset)  # rest before a cell
    again: bool = Field(default=False, exclude_if=_is_unset)  # the first cell once more, at the end
    coding: CodingAsked | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _paced(self) -> Self:
        if not self.paces:
            raise ValueError("name `concurrency`, `rates` or `trace`: how requests come")
        if min((*self.concurrency, *self.rates), default=1) <= 0:
            raise ValueError("`concurrency` and `rates` are above 0")
        return self

    @property
    def paces(self) -> tuple[Pace, ...]:
        """The ladder: closed loops, then rates, then the trace."""
        closed = (Pace(concurrency=concurrency) for concurrency in self.concurrency)
        poisson = (Pace(arrivals="poisson", rate=rate) for rate in self.rates)
        return (*closed, *poisson, *((Pace(arrivals="trace"),) if self.trace else ()))

    def ladder(self, variant: Variant) -> tuple[Pace, ...]:
        """The paces at which `variant` is measured."""
        return tuple(p for p in self.paces if f"{variant.name}.{p.rung}" not in self.left_out)

    @property
    def fingerprint(self) -> str:
        """sha256 of the canonical form; two matrices that measure the same have the same one."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Cell(Word):
    """One configuration at one pace, one repeat."""

    variant: Variant
    concurrency: int  # 0 in an open loop
    repeat: int
    arrivals: Arrivals = Field(default="closed", exclude_if=_is_closed)
    rate: float | None = Field(default=None, exclude_if=is_none)
    again: bool = Field(default=False, exclude_if=_is_unset)  # the first cell of its run once more

    @property
    def pace(self) -> Pace:
        return Pace(arrivals=self.arrivals, concurrency=self.concurrency, rate=self.rate)

    @property
    def id(self) -> str:
        last = ".again" if self.again else ""
        return f"{self.variant.name}.{self.pace.rung}.r{self.repeat}{last}"
