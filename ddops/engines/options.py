"""The options an engine has: as its own `--help` lists them, or as recorded from a release."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from importlib.resources import files

from packaging.version import InvalidVersion, Version

from ddops.errors import CheckError
from ddops.spec.argument import Argument
from ddops.spec.base import Word
from ddops.spec.deployment import EngineName

_OPTION = re.compile(r"^ {1,4}(-\S.*)$")
_CHOICES = re.compile(r"\{([^{}]*)\}")
_FLAG = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*")
_NAME = re.compile(r"([a-z-]+)-(\d.*)\.txt")


class Options(Word):
    origin: str  # as an error names it
    flags: dict[str, tuple[str, ...] | None]  # every spelling, and the values it takes if few

    def check(self, arguments: Sequence[Argument]) -> None:
        """Raises `CheckError` for a flag the engine does not have, or a value it does not take."""
        for one in arguments:
            if not one.flag:
                continue
            if one.flag not in self.flags:
                near = difflib.get_close_matches(one.flag, self.flags, n=1)
                raise CheckError(
                    f"{self.origin} has no option {one.flag} ({_asked_by(one)})",
                    hint=f"did you mean `{near[0]}`?" if near else "remove it from `flags`",
                )
            choices = self.flags[one.flag]
            if choices and one.value and one.value not in choices:
                raise CheckError(
                    f"{self.origin} takes no {one.value} for {one.flag} ({_asked_by(one)})",
                    hint=f"one of {', '.join(choices)}",
                )


def parse(text: str, origin: str) -> Options | None:
    """None for a text that lists no options: an engine that could not even say its help."""
    flags: dict[str, tuple[str, ...] | None] = {}
    for line in text.splitlines():
        option = _OPTION.match(line)
        if option is None:
            continue
        invocation = re.split(r" {2,}", option[1])[0]
        choices = _CHOICES.search(invocation)
        values = tuple(choices[1].split(",")) if choices else None
        for flag in _FLAG.findall(_CHOICES.sub("", invocation).replace(",", " ")):
            flags[flag] = values
    return Options(origin=origin, flags=flags) if flags else None


def recorded(engine: EngineName, version: str | None) -> Options | None:
    """The newest recorded release that is not newer than `version`.

    None when there is none: an unknown version is never taken for a known one.
    """
    wanted = _version(version or "")
    known = {
        release: text
        for name, text in _files().items()
        if (found := _NAME.fullmatch(name)) and found[1] == engine
        and (release := _version(found[2])) is not None
    }  # fmt: skip
    older = [release for release in known if wanted is not None and release <= wanted]
    if not older:
        return None
    release = max(older)
    return parse(known[release], f"{engine} {release} (recorded)")


def _files() -> dict[str, str]:
    folder = files("ddops.engines") / "recorded"
    return {one.name: one.read_text("utf-8") for one in folder.iterdir()}


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _asked_by(one: Argument) -> str:
    return f"rule `{one.rule}`" if one.rule else "from the inventory"
