"""What differs between a box as it is wanted and as it is found. Pure; one function a subject."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from ddops.spec.deployment import Deployment, Weights
from ddops.spec.drift import Drift, Subject
from ddops.spec.observed import Artefact, Holding, Offered
from ddops.spec.packages import Environment, Package

_NOTHING = "none"
_KEY = re.compile(r'^\s*"?([A-Za-z_]\w*)"?\s*[=:]')


def deployment(wanted: Deployment, deployed: Deployment) -> list[Drift]:
    """One for each key, as the inventory spells it."""
    return keys("deployment", wanted.model_dump(), deployed.model_dump())


def keys(subject: Subject, wanted: Mapping[str, Any], there: Mapping[str, Any]) -> list[Drift]:
    """One for each key, `gpus.0.name` for what lies deeper."""
    new, old = _flat(wanted), _flat(there)
    return [
        _drift(subject, key, _word(new.get(key)), _word(old.get(key)))
        for key in dict.fromkeys([*new, *old])
        if new.get(key) != old.get(key)
    ]


def text(wanted: str, there: str) -> list[Drift]:
    """Of a unit: line by line; of a line that both have, only the words that differ."""
    new, old = wanted.splitlines(), there.splitlines()
    found: list[Drift] = []
    for verb, a, b, c, d in SequenceMatcher(None, new, old, autojunk=False).get_opcodes():
        if verb != "equal":
            found += _lines(new[a:b], old[c:d])
    return found


def arguments(wanted: Sequence[str], running: Sequence[str]) -> list[Drift]:
    """Of a process: word by word, a value with the flag before it."""
    return [
        Drift(subject="process", what="arguments", wanted=a, there=b)
        for a, b in _words(wanted, running)
    ]


def packages(proven: Environment, there: Environment) -> list[Drift]:
    """Of the engine's Python, against what it was when the deployment passed its gate."""
    found = []
    if proven.python != there.python:
        found.append(_drift("python", "version", proven.python, there.python))
    old = {one.name: one for one in proven.packages}
    new = {one.name: one for one in there.packages}
    for name in sorted(old.keys() | new.keys()):
        a, b = old.get(name), new.get(name)
        if a != b:
            found.append(_drift("package", name, *_versions(a, b)))
    return found


def weights(want: Weights, seen: Holding) -> list[Drift]:
    """File by file, against the pin, the source's list, or what it was when it was fetched."""
    files: Sequence[Offered] = seen.offer.files if seen.offer and not seen.offer.archive else ()
    if not files:
        files = (Offered(name="", url=None, size=want.size, sha256=want.sha256),)
    found = []
    for file in files:
        path = f"{seen.root}/{file.name}".rstrip("/")
        there = seen.at(path) or (seen.artefacts[0] if not file.name and seen.artefacts else None)
        found += _file(path, file, there)
    return found


def drivers(proven: Sequence[str], there: Sequence[str]) -> list[Drift]:
    if set(proven) == set(there):
        return []
    wanted, found = (", ".join(sorted(set(one))) or _NOTHING for one in (proven, there))
    return [_drift("driver", "version", wanted, found)]


def _lines(new: Sequence[str], old: Sequence[str]) -> list[Drift]:
    """Those with the same key belong together; what is left does in its order."""
    there = {_key(line): line for line in old if _key(line)}
    pairs = [(line, there.pop(_key(line))) for line in new if _key(line) in there]
    paired = {line for pair in pairs for line in pair}
    left, right = ([line for line in side if line not in paired] for side in (new, old))
    pairs += zip_longest(left, right, fillvalue="")
    return [
        _drift("unit", _key(wanted or found) or "line", a, b)
        for wanted, found in pairs
        for a, b in _words(wanted.split(), found.split())
    ]


def _key(line: str) -> str:
    found = _KEY.match(line)
    return found[1] if found else ""


def _words(new: Sequence[str], old: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for verb, a, b, c, d in SequenceMatcher(None, new, old, autojunk=False).get_opcodes():
        if verb != "equal":
            flag = new[a - 1 : a] if a and new[a - 1].startswith("--") else ()
            pair = (" ".join((*flag, *new[a:b])), " ".join((*flag, *old[c:d])))
            found.append((pair[0] or _NOTHING, pair[1] or _NOTHING))
    return found


def _versions(a: Package | None, b: Package | None) -> tuple[str, str]:
    if a and b and a.version == b.version:
        return f"{a.version}, as it was installed", f"{b.version}, other files"
    return (a.version if a else "not installed"), (b.version if b else "not installed")


def _file(path: str, wanted: Offered, there: Artefact | None) -> list[Drift]:
    if there is None:
        return [_drift("weights", path, _size(wanted.size) or "there", "not there")]
    if wanted.size is not None and wanted.size != there.size:
        return [_drift("weights", path, _size(wanted.size), _size(there.size))]
    expected = wanted.sha256 or there.recorded
    if expected and there.sha256 and expected != there.sha256:
        return [_drift("weights", path, f"sha256 {expected}", f"sha256 {there.sha256}")]
    return []


def _size(size: int | None) -> str:
    return "" if size is None else f"{size} bytes"


def _drift(subject: Subject, what: str, wanted: str, there: str) -> Drift:
    return Drift(subject=subject, what=what, wanted=wanted, there=there)


def _word(value: object) -> str:
    return _NOTHING if value is None else str(value)


def _flat(data: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Without empty lists: the other side may have one of objects, which has no key of its own."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        path = f"{above}{key}"
        if isinstance(value, list | tuple) and all(isinstance(each, dict) for each in value):
            value = {str(place): each for place, each in enumerate(value)}
        found |= _flat(value, f"{path}.") if isinstance(value, dict) else {path: value}
    return found
