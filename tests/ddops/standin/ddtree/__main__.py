"""A stand-in for the engine: the same command line and HTTP seam, no model, starts in 0.1 s.

It behaves as `behave.json` in its working folder says: `exit` (code), `log` (its last words),
`after_s`, `never_ready`, `deaf` (ignores SIGTERM), `say` (the answer's text), `think` (its
thought), `spawn` (leaves a child behind), `dies_s` (so long after it listens), `dies_asked` (at
the first question); with `only_mode`, only in that mode.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    for flag in ("model", "served-model-name", "mode", "drafter", "dtype", "device", "host"):
        parser.add_argument(f"--{flag}")
    for flag in ("budget", "context-length", "max-running-requests", "prefill-chunk", "port"):
        parser.add_argument(f"--{flag}", type=int)
    for flag in ("kv-tokens", "threads"):
        parser.add_argument(f"--{flag}", type=int)
    parser.add_argument("--graphs")
    return parser.parse_args()


def listening(behaviour: dict[str, Any], options: argparse.Namespace) -> "ThreadingHTTPServer":
    """Its module takes half of the start, and options are asked for more often than answers."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/health":
                self.answer(200, {"status": "ok"})
            elif self.path == "/ready":
                never = behaviour.get("never_ready")
                self.answer(503 if never else 200, {"status": "warming" if never else "ready"})
            elif self.path == "/server_info":
                seen = vars(options)
                self.answer(
                    200, {key: seen[key] for key in ("served_model_name", "mode", "budget")}
                )
            else:
                self.answer(404, {})

        def do_POST(self) -> None:
            if behaviour.get("dies_asked"):
                give_up(1)
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            key = os.environ.get("DDTREE_API_KEY")
            if key and self.headers.get("authorization") != f"Bearer {key}":
                self.answer(401, {"error": {"message": "wrong key"}})
                return
            assert body["model"] == options.served_model_name
            text = behaviour.get("say", "Paris is the capital of France.")
            thought = {"reasoning_content": said} if (said := behaviour.get("think")) else {}
            self.answer(
                200,
                {
                    "choices": [{"message": {"role": "assistant", "content": text, **thought}}],
                    "usage": {"completion_tokens": len(text.split())},
                },
            )

        def answer(self, code: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            sys.stderr.write(f"{format % args}\n")

    return ThreadingHTTPServer((options.host, options.port), Handler)


def give_up(code: int) -> None:
    sys.stderr.write("the stand-in gives up on purpose\n")
    sys.stderr.flush()
    os._exit(code)


def notify() -> None:
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto(b"READY=1", address.replace("@", "\0", 1))


def main() -> None:
    options = arguments()
    said = Path("behave.json")
    behaviour = json.loads(said.read_text("utf-8")) if said.exists() else {}
    if behaviour.get("only_mode", options.mode) != options.mode:
        behaviour = {}
    sys.stdout.write(f"stand-in serves {options.model} in mode {options.mode}\n")
    sys.stdout.flush()
    if behaviour.get("spawn"):
        child = subprocess.Popen(["sleep", "600"])
        Path("spawned.pid").write_text(str(child.pid), "utf-8")
    if "exit" in behaviour:
        time.sleep(behaviour.get("after_s", 0.0))
        sys.stderr.write(behaviour.get("log", "") + "\n")
        give_up(behaviour["exit"])
    server = listening(behaviour, options)

    def end(number: int, frame: object) -> None:
        if not behaviour.get("deaf"):
            threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, end)
    if "dies_s" in behaviour:
        threading.Timer(behaviour["dies_s"], give_up, (1,)).start()
    if not behaviour.get("never_ready"):
        notify()
    server.serve_forever(poll_interval=0.02)


main()
