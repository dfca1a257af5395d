"""What a weights source means: the text of an inventory as one of six shapes."""

from __future__ import annotations

import re

from ddops.spec.base import Word

FORMS = (
    "wheel:NAME==VERSION#MEMBER",
    "hf:ORG/NAME@REVISION",
    "https://HOST/FILE",
    "file:PATH",
    "bundled",
)


class Wheel(Word):
    """A file inside a Python wheel."""

    name: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"


class Hub(Word):
    """A hub repository at a pinned revision."""

    repo: str
    revision: str


class Link(Word):
    """One file behind a URL."""

    url: str

    @property
    def file(self) -> str:
        return self.url.split("?")[0].rstrip("/").rsplit("/", 1)[-1]


class OnBox(Word):
    """A file or a folder that is already on the box."""

    path: str


class Bundled(Word):
    """Ships inside the engine."""


class Replicas(Word):
    """With the boxes that a router stands in front of."""


Source = Wheel | Hub | Link | OnBox | Bundled | Replicas

_WHEEL = re.compile(r"wheel:([A-Za-z0-9._-]+)==([A-Za-z0-9.+!_-]+)#(\S+)")
_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)@([\w./-]+)")


def parse_source(text: str) -> Source:
    """Raises ValueError with the valid forms, so that a loader can say where the text stood."""
    if text == "bundled":
        return Bundled()
    if text == "replicas":
        return Replicas()
    if wheel := _WHEEL.fullmatch(text):
        return Wheel(name=wheel[1], version=wheel[2], member=wheel[3])
    if hub := _HUB.fullmatch(text):
        return Hub(repo=hub[1], revision=hub[2])
    if re.fullmatch(r"https?://[^/\s]+/\S*[^/\s]", text):
        return Link(url=text)
    if text.startswith("file:") and len(text) > len("file:"):
        return OnBox(path=text.removeprefix("file:"))
    raise ValueError(f"`{text}` is none of {', '.join(FORMS)}")
