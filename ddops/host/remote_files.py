"""Files of a machine behind SSH: read, put whole, fetch, take out of an archive. All by `sh`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ddops.errors import HostError, StepError, WeightsError
from ddops.host import hub
from ddops.host.base import Progress
from ddops.host.box_extract import NO_MEMBER
from ddops.host.channel import Said
from ddops.spec.command import Extract, Fetch, Put
from ddops.spec.manifest import beside, settled

_ABSENT = 66
_NO_PROGRAM = 90
_DAMAGED = 91

_READ = '[ -e "$1" ] || exit 66; exec cat -- "$1"'

# The byte count tells a whole text from one whose connection broke: both end with end-of-file.
_PUT = """
umask 077
mkdir -p -- "$(dirname -- "$1")" && new=$(mktemp -- "$1.XXXXXX") || exit
cat > "$new" && [ "$(wc -c < "$new")" = "$3" ] && chmod "$2" "$new" && sync "$new" &&
  mv -fT -- "$new" "$1" || { code=$?; rm -f -- "$new"; exit $code; }
"""


def _sent(*names: str) -> str:
    """Programs of this folder, sent to the box as text: nothing has to be installed there."""
    return "".join(Path(__file__).with_name(name).read_text("utf-8") for name in names)


_FETCH = _sent("box_fetch.sh", "box_settle.sh")
_FETCH_PYTHON = _sent("box_fetch.py")
_EXTRACT = _sent("box_extract.sh", "box_settle.sh")
_EXTRACT_PYTHON = _sent("box_extract.py")


class Sh(Protocol):
    """Runs a script on the box with words as $1, $2, …"""

    def __call__(
        self,
        script: str,
        *words: str,
        stdin: bytes = b"",
        sudo: bool = False,
        timeout_s: float | None = 600.0,
        tick: Callable[[], None] = lambda: None,
    ) -> Said: ...


def read(sh: Sh, path: str) -> bytes | None:
    said = sh(_READ, path)
    if said.code == _ABSENT:
        return None
    if said.code:
        raise HostError(f"{path} cannot be read: {_last(said)}")
    return said.stdout


def put(sh: Sh, command: Put) -> None:
    data = command.text.encode()
    said = sh(
        _PUT, command.path, f"{command.mode:o}", str(len(data)), stdin=data, sudo=command.sudo
    )
    if said.code:
        why = _last(said)
        room = "free some space there" if "No space" in why else None
        raise StepError(f"{command.path} cannot be written: {why}", hint=room)


def fetch(sh: Sh, command: Fetch, progress: Progress) -> None:
    """Twice, if it must be: the part of an earlier run may be damaged by no fault of this one."""
    part = f"{command.path}.part"

    def look() -> None:
        size = sh('stat -c %s "$1" 2>/dev/null', part, timeout_s=30.0).stdout
        progress(float(size or 0), command.size)

    words = (command.url, command.path, command.sha256 or "", str(command.size or ""))
    for _ in range(2):
        said = sh(_FETCH, *words, _FETCH_PYTHON, stdin=_token(command), timeout_s=None, tick=look)
        if said.code != _DAMAGED:
            break
    if said.code:
        raise WeightsError(
            f"{command.url} cannot be fetched to the box: {_last(said)}",
            hint=_fetch_hint(said),
        )
    _record(sh, said, command.path, command.url)


def extract(sh: Sh, command: Extract) -> None:
    want = (command.sha256 or "", str(command.size or ""))
    words = (command.archive, command.path, *want, _EXTRACT_PYTHON, command.member)
    said = sh(_EXTRACT, *words, timeout_s=None)
    if said.code == NO_MEMBER:
        raise WeightsError(
            f"{command.archive} has no member `{command.member}`",
            hint=f"`python3 -m zipfile -l {command.archive}` on the box lists what it has",
        )
    if said.code:
        raise WeightsError(
            f"`{command.member}` cannot be taken out of {command.archive}: {_last(said)}",
            hint="run the same command again: the archive is fetched anew if it is damaged",
        )
    _record(sh, said, command.path, f"{command.archive.rsplit('/', 1)[-1]}#{command.member}")


def _record(sh: Sh, said: Said, path: str, source: str) -> None:
    text = settled(said.stdout.decode(), path, source).text
    put(sh, Put(path=beside(path), text=text, why="what the file was when it was checked"))


def _token(command: Fetch) -> bytes:
    """Only for the hub itself; neither program carries it to another host."""
    token = hub.token_for(command.url)
    return f'header = "Authorization: Bearer {token}"\n'.encode() if token else b""


def _fetch_hint(said: Said) -> str:
    text = said.stderr.decode("utf-8", "replace")
    if said.code == _NO_PROGRAM:
        return "`apt-get install curl` on the box"
    if said.code == _DAMAGED:
        return "the source was replaced or damages data: check `source` and `sha256`"
    if "No space left" in text:
        return "free some space on the box, then run the same command again"
    if re.search(r"\b40[13]\b", text):
        return "set HF_TOKEN to a token that may read it"
    if re.search(r"\b404\b", text):
        return "check `source` in the inventory"
    return "check the box's network, then run the same command again: what came is kept"


def _last(said: Said) -> str:
    lines = said.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else f"exit code {said.code}"
