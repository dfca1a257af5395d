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
import sys
import threading
import time
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any


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


class Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def listening(behaviour: dict[str, Any], options: argparse.Namespace) -> Server:
    """Speaks just enough HTTP: `http.server` would be half of the start."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            if not (line := self.rfile.readline().decode()):
                return  # it only looked whether somebody listens
            verb, path, _ = line.split()
            headers = dict(headers_of(self.rfile))
            body = self.rfile.read(int(headers.get("content-length", 0)))
            code, said = self.posted(headers, body) if verb == "POST" else self.got(path)
            data = json.dumps(said).encode()
            head = f"HTTP/1.1 {code} -\r\nconnection: close\r\ncontent-length: {len(data)}"
            self.wfile.write(f"{head}\r\n\r\n".encode() + data)
            sys.stderr.write(f"{verb} {path} {code}\n")

        def got(self, path: str) -> tuple[int, dict[str, Any]]:
            if path == "/health":
                return 200, {"status": "ok"}
            if path == "/ready":
                never = behaviour.get("never_ready")
                return 503 if never else 200, {"status": "warming" if never else "ready"}
            if path == "/server_info":
                seen = vars(options)
                return 200, {key: seen[key] for key in ("served_model_name", "mode", "budget")}
            return 404, {}

        def posted(self, headers: dict[str, str], data: bytes) -> tuple[int, dict[str, Any]]:
            if behaviour.get("dies_asked"):
                give_up(1)
            body = json.loads(data)
            key = os.environ.get("DDTREE_API_KEY")
            if key and headers.get("authorization") != f"Bearer {key}":
                return 401, {"error": {"message": "wrong key"}}
            assert body["model"] == options.served_model_name
            text = behaviour.get("say", "Paris is the capital of France.")
            thought = {"reasoning_content": said} if (said := behaviour.get("think")) else {}
            message = {"role": "assistant", "content": text, **thought}
            usage = {"completion_tokens": len(text.split())}
            return 200, {"choices": [{"message": message}], "usage": usage}

    return Server((options.host, options.port), Handler)


def headers_of(file: BufferedIOBase) -> Iterator[tuple[str, str]]:
    while header := file.readline().decode().strip():
        name, _, value = header.partition(":")
        yield name.lower(), value.strip()


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
        import subprocess  # which one test needs

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
