"""The cells of a benchmark: which configurations, at which concurrency, over which prompts."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import Field

from ddops.spec.base import Word
from ddops.spec.deployment import Mode


def _is_none(value: object) -> bool:
    return value is None


class Variant(Word):
    """One configuration of the service; what is None stays as the deployment has it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    mode: Mode
    budget: int | None = Field(default=None, ge=1, le=256)
    adaptive: bool = False
    graphs: Literal["auto", "off"] | None = None
    # Not written where they are None: fingerprints of matrices from before them stay.
    nvls: Literal["on", "off"] | None = Field(default=None, exclude_if=_is_none)
    parallel: Literal["tp", "ep"] | None = Field(default=None, exclude_if=_is_none)


class Load(Word):
    prompts: str = "coding"  # a shipped set by name, or a JSON file's path
    requests: int = Field(ge=1)  # measured requests per cell
    warmup: int = Field(ge=0)  # requests before the window, not measured
    max_tokens: int = Field(ge=1)
    temperature: float = Field(default=0.0, ge=0.0)
    seed: int = 0


class Matrix(Word):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    variants: tuple[Variant, ...] = Field(min_length=1)
    concurrency: tuple[int, ...] = Field(min_length=1)
    load: Load
    repeats: int = Field(default=1, ge=1)
    order: Literal["repeated", "randomised"] = "repeated"
    timeout_s: float = Field(default=900.0, gt=0)  # for one cell

    @property
    def fingerprint(self) -> str:
        """sha256 of the canonical form; two matrices that measure the same have the same one."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Cell(Word):
    """One configuration at one concurrency, one repeat."""

    variant: Variant
    concurrency: int
    repeat: int

    @property
    def id(self) -> str:
        return f"{self.variant.name}.c{self.concurrency}.r{self.repeat}"
