"""A router's box asks every replica itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ddops.facts import replicas
from ddops.spec.deployment import Router
from tests.ddops.answering import answering


class Handler(BaseHTTPRequestHandler):
    code = 200

    def do_GET(self) -> None:
        self.send_response(self.code if self.path == "/health" else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """The test looks at the result."""


@contextmanager
def replica(code: int) -> Iterator[str]:
    handler = type("Answering", (Handler,), {"code": code})
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        yield url


def test_replicas_that_do_not_answer_or_are_ill_are_named_with_the_reason() -> None:
    with replica(200) as gone:
        pass
    with replica(200) as well, replica(503) as ill:
        router = Router(replicas={"a": well, "b": ill, "c": gone})
        asked = replicas.command(sys.executable, router)
        # A proxy of the environment must not stand between a router and its replicas.
        env = {**asked.env, "http_proxy": "http://127.0.0.1:9"}
        said = subprocess.run(asked.argv, capture_output=True, text=True, check=True, env=env)
    found = replicas.parse(said.stdout, router)
    assert found == {"b": "answers 503", "c": "[Errno 111] Connection refused"}
