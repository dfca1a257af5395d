"""Download one file: resume what is there, check what came, give it its name only when right.

Until then it is `PATH.part`, with `PATH.part.json` saying which version of the file it is part of.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from ddops.errors import WeightsError
from ddops.host import atomic, hub, manifest
from ddops.host.base import Progress
from ddops.host.patience import Again, attempts
from ddops.spec.command import Fetch

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_CHUNK = 1 << 20  # bytes
_BUSY = {408, 425, 429, 500, 502, 503, 504}


class _Damaged(Exception):
    """The bytes are not the wanted ones."""


def fetch(command: Fetch, progress: Progress) -> None:
    """Raises `WeightsError`; whatever happens, a later call goes on where this one stopped."""
    path = Path(command.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if command.url.startswith("file:"):
            _copy(command, progress)
        else:
            with _client(command.url) as client:
                _Download(command, client, progress).run()
    except OSError as error:
        raise _disk(command, error) from error


def _client(url: str) -> httpx.Client:
    """The hub's own host gets the token; httpx takes it off when it is redirected elsewhere."""
    token = hub.token_for(url)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(follow_redirects=True, timeout=_TIMEOUT, headers=headers)


@dataclass(frozen=True)
class _Download:
    want: Fetch
    client: httpx.Client
    progress: Progress

    @property
    def part(self) -> Path:
        return Path(f"{self.want.path}.part")

    @property
    def note(self) -> Path:
        return Path(f"{self.want.path}.part.json")

    def run(self) -> None:
        """Two tries: a part left by an earlier run may be damaged through no fault of this one."""
        for _ in range(2):
            self._fill()
            try:
                _accept(self.want, self.part)
            except _Damaged as error:
                self._discard()
                damage = error
            else:
                self.note.unlink(missing_ok=True)
                return
        raise WeightsError(
            f"{self.want.path} is not what it should be, twice: {damage}",
            hint="the source was replaced or damages data: check `source` and `sha256`",
        )

    @property
    def have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _fill(self) -> None:
        try:
            for attempt in attempts():
                with attempt:
                    self._pull_while_it_grows()
        except (Again, httpx.TransportError) as error:
            raise WeightsError(
                f"{self.want.url} cannot be fetched: {error or type(error).__name__}",
                detail=f"{self.have / 1e6:.1f} MB are kept for the next try",
                hint="check the network, then run the same command again",
            ) from None

    def _pull_while_it_grows(self) -> None:
        """A connection that brought bytes before it broke costs no attempt."""
        while True:
            before = self.have
            try:
                self._pull()
                return
            except httpx.TransportError:
                if self.have <= before:
                    raise

    def _pull(self) -> None:
        have, version = self.have, self._version()
        if have and not version and not self.want.sha256:
            have = 0  # nothing could tell whether the rest belongs to this part
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if version:
                headers["If-Range"] = version
        with self.client.stream("GET", self.want.url, headers=headers) as answer:
            start = self._start(answer, have, version)
            if start is None:
                return
            total = self._total(answer, start)
            self._remember(answer)
            # Unbuffered, and in the pieces that arrive: a kill or a broken line loses nothing.
            with self.part.open("r+b" if start else "wb", buffering=0) as file:
                file.seek(start)
                for data in answer.iter_raw():
                    file.write(data)
                    self.progress(file.tell(), total)

    def _start(self, answer: httpx.Response, have: int, version: str | None) -> int | None:
        """Where the body belongs in the file; None when nothing is missing."""
        status = answer.status_code
        if status == 200:
            return 0  # first request, or the file changed, or the server knows no ranges
        if status == 206:
            given = answer.headers.get("content-range", "")
            same = not version or _version_of(answer) in (None, version)
            if same and given.startswith(f"bytes {have}-"):
                return have
            self._discard()
            raise Again("the server answered with another range or another file")
        if status == 416 and have and have == self.want.size:
            return None
        if status == 416 and have:
            self._discard()
            raise Again("the file is shorter than what is already here")
        raise self._refusal(answer)

    def _refusal(self, answer: httpx.Response) -> Exception:
        status = answer.status_code
        # A redirect's target that says 403 is a signed link that ran out: ask for a new one.
        if status in _BUSY or (status == 403 and answer.history):
            return Again(f"the server answers {status}", _retry_after(answer))
        hints = {
            401: "set HF_TOKEN to a token that may read it",
            403: "ask for access to it, and set HF_TOKEN to a token that may read it",
            404: "check `source` in the inventory",
        }
        return WeightsError(
            f"{self.want.url} cannot be fetched: the server answers {status}",
            hint=hints.get(status, "check `source` in the inventory"),
        )

    def _total(self, answer: httpx.Response, start: int) -> int | None:
        length = answer.headers.get("content-length")
        total = start + int(length) if length else None
        if total and self.want.size and total != self.want.size:
            raise WeightsError(
                f"{self.want.url} has {total} bytes, {self.want.size} were expected",
                hint="the file was replaced: check `source`, `size` and `sha256`",
            )
        return total

    def _version(self) -> str | None:
        try:
            said = json.loads(self.note.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return said.get("version") if said.get("url") == self.want.url else None

    def _remember(self, answer: httpx.Response) -> None:
        note = {"url": self.want.url, "version": _version_of(answer)}
        atomic.write(self.note, json.dumps(note).encode())

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def _version_of(answer: httpx.Response) -> str | None:
    """A strong ETag, else the date: what If-Range accepts."""
    tag = answer.headers.get("etag", "")
    if tag and not tag.startswith("W/"):
        return str(tag)
    date = answer.headers.get("last-modified")
    return str(date) if date else None


def _retry_after(answer: httpx.Response) -> float | None:
    said = answer.headers.get("retry-after", "")
    return float(said) if said.isdigit() else None


def _accept(want: Fetch, part: Path) -> None:
    size = part.stat().st_size
    if want.size and size != want.size:
        raise _Damaged(f"{size} bytes instead of {want.size}")
    sha256 = manifest.digest(part)
    if want.sha256 and sha256 != want.sha256:
        raise _Damaged(f"sha256 {sha256} instead of {want.sha256}")
    path = Path(want.path)
    atomic.settle(part, path)
    manifest.record(path, want.url, sha256)


def _copy(want: Fetch, progress: Progress) -> None:
    source = Path(unquote(urlsplit(want.url).path))
    part = Path(f"{want.path}.part")
    if not source.is_file():
        raise WeightsError(f"there is no file {source}", hint="check `source` in the inventory")
    total = source.stat().st_size
    with source.open("rb") as read, part.open("wb") as write:
        for data in _chunks(read.fileno()):
            write.write(data)
            progress(write.tell(), total)
    try:
        _accept(want, part)
    except _Damaged as damage:
        part.unlink()
        raise WeightsError(
            f"{source} is not what it should be: {damage}",
            hint="remove that file, or correct `sha256`",
        ) from None


def _chunks(handle: int) -> Iterator[bytes]:
    while data := os.read(handle, _CHUNK):
        yield data


def _disk(command: Fetch, error: OSError) -> WeightsError:
    if error.errno == errno.ENOSPC:
        free = shutil.disk_usage(Path(command.path).parent).free
        wanted = f" of {command.size / 1e6:.1f} MB" if command.size else ""
        return WeightsError(
            f"the disk is full: {free / 1e6:.1f} MB are free, {command.path}{wanted} does not fit",
            hint="free some space, or set `DDOPS_HOME` to a larger disk; then run it again",
        )
    return WeightsError(f"{command.path} cannot be written: {error}")
