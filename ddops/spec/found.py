"""What `ddops init` finds on a box before anybody has written its inventory."""

from __future__ import annotations

from ddops.spec.base import Word
from ddops.spec.deployment import EngineName
from ddops.spec.observed import Gpu, System
from ddops.spec.situation import Fabric, Link


class Installation(Word):
    """An engine in some environment of the box."""

    python: str  # the interpreter's path
    engine: EngineName
    version: str | None


class Found(Word):
    system: System
    gpus: tuple[Gpu, ...]
    link: Link
    fabric: Fabric
    installations: tuple[Installation, ...]
