"""A stand-in for an engine of others: its own options, `/health` alone, no word to systemd."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Handler(BaseHTTPRequestHandler):
    options: argparse.Namespace
    info: str
    key: str | None
    waits = 2  # how often `/health` still says 503

    def do_GET(self) -> None:
        if self.path == "/health":
            Handler.waits -= 1
            self.answer(503 if Handler.waits >= 0 else 200, {})
        elif self.path == self.info:
            self.answer(200, {"version": "1.0", "served_model_name": self.options.name})
        else:
            self.answer(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.key and self.headers.get("authorization") != f"Bearer {self.key}":
            self.answer(401, {"error": {"message": "wrong key"}})
            return
        assert body["model"] == self.options.name
        message = {"role": "assistant", "content": "Paris."}
        usage = {"completion_tokens": 2}
        self.answer(200, {"choices": [{"message": message}], "usage": usage})

    def answer(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def serve(release: str, argv: Sequence[str], *, info: str, key: str | None = None) -> None:
    """Knows exactly the options of the recorded `release`."""
    parser = argparse.ArgumentParser(prog=release, allow_abbrev=False)
    parser.add_argument("model", nargs="?")
    for names in _recorded(release):
        known = {"--served-model-name": "name", "--host": "host", "--port": "port"}
        dest = next((known[one] for one in names if one in known), None)
        option = parser.add_argument(*names, nargs="?")
        option.dest = dest or option.dest
    Handler.options, Handler.info, Handler.key = parser.parse_args(argv), info, key
    address = (Handler.options.host, int(Handler.options.port))
    server = ThreadingHTTPServer(address, Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    sys.stdout.write(f"stand-in of {release}\n")
    server.serve_forever(poll_interval=0.02)


def _recorded(release: str) -> list[list[str]]:
    file = Path(__file__).parents[3] / "ddops" / "engines" / "recorded" / f"{release}.txt"
    lines = [line for line in file.read_text("utf-8").splitlines() if line.startswith("  -")]
    options = [[word.strip(",") for word in line.split() if word.startswith("-")] for line in lines]
    return [names for names in options if "-h" not in names and "--help" not in names]
