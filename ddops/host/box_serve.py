"""Sent to a box that has weights: hand the files of one folder to another box, in ranges.

`python3 -c TEXT PORT FOLDER`, with the first part of every path on standard input: only who knows
it is answered. Nothing but the standard library, and no word that Python 3.9 does not know.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote


class Handler(BaseHTTPRequestHandler):
    timeout = 60
    folder: Path
    secret: str

    def do_GET(self) -> None:
        secret, _, name = unquote(self.path).lstrip("/").partition("/")
        path = self.folder / name
        if secret != self.secret or ".." in name.split("/") or not path.is_file():
            self.send_error(404)
            return
        with path.open("rb") as file:
            self.send(file)

    def send(self, file: BinaryIO) -> None:
        size = os.fstat(file.fileno()).st_size
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["range"] or "")
        start = int(wanted[1]) if wanted else 0
        end = min(int(wanted[2]) + 1, size) if wanted and wanted[2] else size
        if start >= end:
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("content-range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("content-length", str(end - start))
        self.end_headers()
        self.connection.sendfile(file, start, end - start)

    def do_DELETE(self) -> None:
        """Whoever started it is done with it."""
        self.send_response(200 if self.path == f"/{self.secret}" else 404)
        self.end_headers()
        if self.path == f"/{self.secret}":
            threading.Thread(target=self.server.shutdown).start()

    def log_message(self, format: str, *args: object) -> None:
        """The other side tells what went wrong."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """The other side hung up, and will ask again."""


def end_with(parent: int, server: Server) -> None:
    """Whoever started this may be killed: then nobody needs it any more."""
    while os.getppid() == parent:
        time.sleep(0.5)
    server.shutdown()


def main(port: int, folder: Path) -> None:
    Handler.folder, Handler.secret = folder, sys.stdin.readline().strip()
    with Server(("", port), Handler) as server:
        threading.Thread(target=end_with, args=(os.getppid(), server), daemon=True).start()
        server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
