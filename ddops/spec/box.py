"""A box as the inventory describes it: how to reach it, what to run on it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ddops.spec.base import Word
from ddops.spec.deployment import Deployment

Group = Annotated[str, Field(pattern=r"^\w[\w-]*$")]


class Reach(Word):
    """How to reach the box. `local` is this machine; `ssh` goes as the user's own `ssh` would."""

    via: Literal["local", "ssh"] = "local"
    host: str | None = None  # an address, or a name of ~/.ssh/config
    user: str | None = None  # None: as ~/.ssh/config says, else the name of this machine's user
    port: int | None = Field(default=None, ge=1, le=65535)

    @model_validator(mode="after")
    def _ssh_has_a_host_and_local_has_none(self) -> Reach:
        if self.via == "ssh" and not self.host:
            raise ValueError("`via: ssh` needs a `host`")
        if self.via == "local" and (self.host or self.user or self.port):
            raise ValueError("`via: local` is this machine: it has no host, user or port")
        return self


class Box(Word):
    """One inventory file. `name` comes from the file's own name."""

    name: str
    about: str = ""
    groups: tuple[Group, ...] = ()  # names by which it is meant together with others
    reach: Reach = Reach()
    state_dir: str | None = None  # None: the user's data folder; holds weights, units, logs
    python: str | None = None  # on a box behind ssh: the interpreter that has ddops and the engine
    deployment: Deployment
