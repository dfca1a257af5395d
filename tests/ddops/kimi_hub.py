"""A hub that lists Kimi K2.6 and its drafter as the real one does; of their bytes it has none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.ddops.answering import answering

COMMIT = "2755962" + "0" * 33
_HIDDEN, _VOCABULARY, _LAYERS, _EXPERTS = 7168, 163840, 61, 384
_WIDE = 2  # bytes


def _attention() -> int:
    down = (1536 + 512 + 64) * _HIDDEN
    up = 64 * (128 + 64) * 1536 + 64 * (128 + 128) * 512
    return _WIDE * (down + up + 64 * 128 * _HIDDEN + 1536 + 512 + 2 * _HIDDEN)


def _experts() -> int:
    """Packed int4 with a 16-bit scale for each 32, the shape of each matrix, router and shared."""
    weights = 2048 * _HIDDEN
    matrix = weights // 2 + weights // 32 * _WIDE + 8
    router = _EXPERTS * (_WIDE * _HIDDEN + 4)
    return _EXPERTS * 3 * matrix + router + _WIDE * 3 * weights


def _shards() -> list[int]:
    """Layer by layer, then embedding with head, the projector of images, and the vision tower."""
    dense = _attention() + _WIDE * 3 * 18432 * _HIDDEN
    sparse = _attention() + _experts()
    tables = _WIDE * (2 * _VOCABULARY + 1) * _HIDDEN
    projector = _WIDE * (4608 * 4608 + 4608 * _HIDDEN)
    return [dense, *[sparse] * (_LAYERS - 1), tables, projector, 850_000_000]


def _kimi() -> dict[str, int]:
    shards = _shards()
    files = {f"model-{n:05}-of-000064.safetensors": size for n, size in enumerate(shards, 1)}
    small = {"config.json": 5_000, "generation_config.json": 52, "tokenizer_config.json": 6_000}
    more = {"chat_template.jinja": 4_000, "tiktoken.model": 2_795_286}
    index = {"model.safetensors.index.json": 25_000_000, "README.md": 30_000}
    return {**small, **more, **files, **index}


REPOSITORIES = {
    "moonshotai/Kimi-K2.6": _kimi(),
    "nvidia/Kimi-K2.6-DFlash": {"config.json": 1_500, "model.safetensors": 6_957_847_019},
}


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        repo = next((one for one in REPOSITORIES if f"/{one}/" in f"{self.path}/"), None)
        if repo is None:
            self._answer(404, b"{}", {"x-error-code": "RepoNotFound"})
        elif self.path.startswith("/api/models/"):
            self._answer(200, json.dumps(_info(repo)).encode())
        else:
            name = self.path.rsplit("/", 1)[-1]
            etag = {"etag": f'"{name}"', "x-repo-commit": COMMIT}
            self._answer(200, b"", {**etag, "content-length": str(REPOSITORIES[repo][name])})

    def _answer(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for key, value in {"content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The tests look at the result."""


def _info(repo: str) -> dict[str, object]:
    siblings = [_sibling(name, size) for name, size in REPOSITORIES[repo].items()]
    return {"id": repo, "sha": COMMIT, "siblings": siblings}


def _sibling(name: str, size: int) -> dict[str, object]:
    digest = sha256(name.encode()).hexdigest()
    seen: dict[str, object] = {"rfilename": name, "size": size, "blobId": digest[:40]}
    if name.endswith(".safetensors"):
        seen["lfs"] = {"sha256": digest, "size": size, "pointerSize": 134}
    return seen


@contextmanager
def kimi_hub() -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    with answering(server) as url:
        yield url
