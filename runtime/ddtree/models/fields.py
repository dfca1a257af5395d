"""A JSON object read key by key, each with the type it must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddtree.models.errors import ModelError


@dataclass(frozen=True)
class Fields:
    """A JSON object that answers with the type asked for, or says which key is wrong."""

    path: Path
    values: Mapping[str, Any]

    def number(self, key: str, default: float | None = None) -> float:
        value = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ModelError(self.path, f"{key} must be a positive number, found {value!r}")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.number(key, default)
        if int(value) != value:
            raise ModelError(self.path, f"{key} must be a whole number, found {value!r}")
        return int(value)

    def flag(self, key: str) -> bool:
        return bool(self.values.get(key, False))

    def inner(self, key: str) -> Fields:
        value = self.values.get(key) or {}
        if not isinstance(value, dict):
            raise ModelError(self.path, f"{key} must be an object, found {value!r}")
        return Fields(self.path, value)
