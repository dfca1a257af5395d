"""An OCI registry by the distribution API: blobs and manifests, there and back, by digest.

What a transfer has brought stays where it is when it breaks, and the next call goes on behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final

import httpx
from platformdirs import user_cache_path

from ddops.errors import BundleError
from ddops.host import atomic
from ddops.host.base import Progress
from ddops.host.patience import Again, attempts
from ddops.host.registry_access import Access
from ddops.spec.shelf import MANIFEST_TYPE, Blob, Registry

_TIMEOUT: Final = httpx.Timeout(60.0, connect=10.0)
_PIECE: Final = 8 << 20  # bytes of an upload that a broken connection may cost
_BUSY: Final = {408, 425, 429, 500, 502, 503, 504}


@contextmanager
def opened(registry: Registry) -> Iterator[Repository]:
    """Raises `BundleError` where it cannot be reached, as for whatever it refuses."""
    access = Access(registry)
    with httpx.Client(auth=access, timeout=_TIMEOUT, follow_redirects=True) as client:
        try:
            yield Repository(registry, client)
        except (Again, httpx.TransportError) as error:
            raise BundleError(
                f"{registry.host} cannot be reached: {error or type(error).__name__}",
                hint="check the network, then run the same command again: what has come is kept",
            ) from None


@dataclass(frozen=True)
class _Upload:
    url: str
    offset: int  # bytes that the registry has


class Repository:
    """One repository of a registry; `opened` makes it."""

    def __init__(self, registry: Registry, client: httpx.Client) -> None:
        self._registry, self._client = registry, client
        self._base = f"{registry.url}/v2/{registry.repository}"

    def tags(self) -> list[str]:
        answer = self._ask("GET", f"{self._base}/tags/list")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return []
        return sorted(map(str, self._right(answer).json().get("tags") or ()))

    def manifest(self, tag: str) -> bytes | None:
        """None: there is no such tag."""
        url = f"{self._base}/manifests/{tag}"
        answer = self._ask("GET", url, headers={"Accept": MANIFEST_TYPE})
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        content = self._right(answer).content
        digest = f"sha256:{sha256(content).hexdigest()}"
        if answer.headers.get("docker-content-digest", digest) != digest:
            raise self._damaged(f"the manifest of {tag}")
        return content

    def put_manifest(self, tag: str, content: bytes) -> None:
        url = f"{self._base}/manifests/{tag}"
        headers = {"Content-Type": MANIFEST_TYPE}
        self._right(self._ask("PUT", url, headers=headers, content=content))

    def push(self, what: Blob, file: Path, progress: Progress) -> bool:
        """False: the registry has it already."""
        if self._ask("HEAD", f"{self._base}/blobs/{what.digest}").is_success:
            return False
        note = _note(f"{self._base}/{what.digest}")
        for attempt in attempts():
            with attempt:
                self._sent(what, file, note, progress)
        note.unlink(missing_ok=True)
        return True

    def pull(self, what: Blob, file: Path, progress: Progress) -> None:
        """`file` appears when its hash is right; until then it is `file.part`."""
        part = file.with_name(f"{file.name}.part")
        for attempt in attempts():
            with attempt:
                self._filled(what, part, progress)
        with part.open("rb") as content:
            found = file_digest(content, "sha256").hexdigest()
        if found != what.sha256:
            part.unlink()
            raise self._damaged(what.digest)
        atomic.settle(part, file)

    def _sent(self, what: Blob, file: Path, note: Path, progress: Progress) -> None:
        place = self._begun(note)
        with file.open("rb") as content:
            content.seek(place.offset)
            while piece := content.read(_PIECE):
                end = content.tell()
                headers = {
                    "Content-Type": "application/octet-stream",
                    "Content-Range": f"{place.offset}-{end - 1}",
                }
                answer = self._ask("PATCH", place.url, headers=headers, content=piece)
                place = _Upload(_location(self._right(answer), place.url), end)
                atomic.write(note, json.dumps({"url": place.url}).encode(), mode=0o600)
                progress(end, what.size)
        url = str(httpx.URL(place.url).copy_merge_params({"digest": what.digest}))
        answer = self._ask("PUT", url)
        if answer.status_code == httpx.codes.BAD_REQUEST:
            note.unlink(missing_ok=True)  # it has other bytes than ours: begin again next time
        self._right(answer)

    def _begun(self, note: Path) -> _Upload:
        """An upload of an earlier call, as far as the registry has it, or a new one."""
        if (known := _noted(note)) is not None:
            answer = self._ask("GET", known)
            if answer.is_success:
                last = answer.headers.get("range", "").rpartition("-")[2]
                offset = int(last) + 1 if last.isdigit() and last != "0" else 0
                return _Upload(_location(answer, known), offset)
            note.unlink(missing_ok=True)
        url = f"{self._base}/blobs/uploads/"
        return _Upload(_location(self._right(self._ask("POST", url)), url), 0)

    def _filled(self, what: Blob, part: Path, progress: Progress) -> None:
        have = part.stat().st_size if part.exists() else 0
        if have == what.size:
            return
        have = have if have < what.size else 0
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        url = f"{self._base}/blobs/{what.digest}"
        with self._client.stream("GET", url, headers=headers) as answer:
            self._right(answer)
            start = have if answer.status_code == httpx.codes.PARTIAL_CONTENT else 0
            with part.open("r+b" if start else "wb", buffering=0) as file:
                file.seek(start)
                for data in answer.iter_raw():
                    if file.tell() + len(data) > what.size:
                        raise self._damaged(what.digest)
                    file.write(data)
                    progress(file.tell(), what.size)
        if part.stat().st_size < what.size:
            raise Again("the registry ended too early")

    def _ask(
        self, method: str, url: str, *, headers: dict[str, str] | None = None, content: bytes = b""
    ) -> httpx.Response:
        return self._client.request(method, url, headers=headers, content=content)

    def _right(self, answer: httpx.Response) -> httpx.Response:
        if answer.status_code in _BUSY:
            raise Again(f"it answers {answer.status_code}")
        if answer.is_success:
            return answer
        answer.read()
        hints = {
            401: f"`docker login {self._registry.host}`",
            403: "ask whoever keeps it for the right to do that",
            404: "is the name of the repository right?",
        }
        raise BundleError(
            f"{self._registry.name} refuses: it answers {answer.status_code}",
            detail=_said(answer),
            hint=hints.get(answer.status_code),
        )

    def _damaged(self, what: str) -> BundleError:
        return BundleError(
            f"{self._registry.name} gave something else as {what}",
            hint="run the same command again; if it stays so, the registry is damaged",
        )


def _location(answer: httpx.Response, url: str) -> str:
    """May be relative."""
    return str(httpx.URL(url).join(answer.headers.get("location", url)))


def _said(answer: httpx.Response) -> str | None:
    """The reasons of the specification's errors."""
    try:
        errors = answer.json()["errors"]
        return "\n".join(f"{one['code']}: {one.get('message', '')}" for one in errors)
    except (ValueError, KeyError, TypeError):
        return None


def _note(what: str) -> Path:
    """Where an upload is kept in mind; its URL is of this upload alone."""
    return user_cache_path("ddops") / "uploads" / f"{sha256(what.encode()).hexdigest()[:24]}.json"


def _noted(note: Path) -> str | None:
    try:
        return str(json.loads(note.read_bytes())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
