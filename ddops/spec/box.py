"""A box as the inventory describes it: how to reach it, what to run on it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ddops.spec.base import Word
from ddops.spec.deployment import Deployment


class Reach(Word):
    """How to reach the box. `local` is this machine."""

    via: Literal["local", "ssh"] = "local"
    host: str | None = None
    user: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)


class Box(Word):
    """One inventory file. `name` comes from the file's own name."""

    name: str
    about: str = ""
    reach: Reach = Reach()
    state_dir: str | None = None  # None: the user's data folder; holds weights, units, logs
    deployment: Deployment
