"""The manner in which bodies are checked: nothing unknown, nothing converted, nothing changed."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Rim(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
