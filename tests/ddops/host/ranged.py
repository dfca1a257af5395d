"""A real file server with ranges, and with the faults that real ones have."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from tests.ddops.answering import answering

PIECE = 64 * 1024  # bytes written at a time
_SEND_BUFFER = 32 * 1024  # so that what counts as sent has nearly arrived


@dataclass
class Asked:
    path: str
    range: str | None
    authorization: str | None
    sent: int = 0


@dataclass
class Files:
    """What is served, and how badly. A fault in a list happens once per entry, in order."""

    content: dict[str, bytes]
    etag: str | None = '"v1"'
    ignores_ranges: bool = False
    refusals: list[int] = field(default_factory=list)  # statuses answered before anything else
    drops: list[int] = field(default_factory=list)  # bytes sent before the connection breaks
    flips: list[int] = field(default_factory=list)  # offset of a byte that arrives damaged
    pause_s: float = 0.0  # between two pieces
    piece: int = PIECE
    signed_s: float | None = None  # how long an address made by `sign` is good
    stalls: list[float] = field(default_factory=list)  # seconds without a byte, once a connection
    crawls: int = 0  # connections that get 4 KiB/s
    redirects: dict[str, str] = field(default_factory=dict)
    refuses_aria2: bool = False  # with 400, as stores do whose files are too large for one address
    too_old: int = 0  # signed addresses that were refused
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    @property
    def sent(self) -> int:
        return sum(one.sent for one in self.asked)

    def sign(self, path: str) -> str:
        until = time.time() + (self.signed_s if self.signed_s is not None else 3600)
        return f"{self.url}{path}?expires={until:.3f}&signature=s1gned"

    def lets_in(self, path: str) -> bool:
        """An address without a signature is good where none is wanted."""
        _, _, query = path.partition("?")
        if not query:
            return self.signed_s is None
        return float(parse_qs(query)["expires"][0]) > time.time()


@contextmanager
def serve(files: Files, address: str = "127.0.0.1") -> Iterator[Files]:
    class Handler(_Handler):
        served = files

    server = ThreadingHTTPServer((address, 0), Handler)
    server.daemon_threads = True
    with answering(server) as files.url:
        yield files


class _Handler(BaseHTTPRequestHandler):
    served: Files

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)

    def do_HEAD(self) -> None:
        data = self.served.content.get(self._name)
        self.send_response(200 if data is not None else 404)
        self.send_header("content-length", str(len(data or b"")))
        self.end_headers()

    def do_GET(self) -> None:
        served = self.served
        asked = Asked(self.path, self.headers["range"], self.headers["authorization"])
        served.asked.append(asked)
        if served.refusals:
            self._bare(served.refusals.pop(0), ("retry-after", "0"))
        elif self.path in served.redirects:
            self._bare(302, ("location", served.redirects[self.path]))
        elif served.refuses_aria2 and "aria2" in self.headers["user-agent"]:
            self._bare(400)
        elif not served.lets_in(self.path):
            served.too_old += 1
            self._bare(403)
        elif self._name not in served.content:
            self._bare(404)
        else:
            self._file(served.content[self._name], asked)

    @property
    def _name(self) -> str:
        return self.path.split("?")[0]

    def _bare(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("content-length", "0")):
            self.send_header(name, value)
        self.end_headers()

    def _file(self, data: bytes, asked: Asked) -> None:
        served = self.served
        start, end = self._part(asked.range, len(data))
        if start and start >= len(data):
            self._bare(416, ("content-range", f"bytes */{len(data)}"))
            return
        partial = start > 0 or end < len(data)
        self.send_response(206 if partial else 200)
        if partial:
            self.send_header("content-range", f"bytes {start}-{end - 1}/{len(data)}")
        if served.etag:
            self.send_header("etag", served.etag)
        self.send_header("content-length", str(end - start))
        self.end_headers()
        self._body(data, start, end, asked)

    def _part(self, wanted: str | None, size: int) -> tuple[int, int]:
        fresh = self.headers["if-range"] in (None, self.served.etag)
        if not wanted or self.served.ignores_ranges or not fresh:
            return 0, size
        first, last = wanted.removeprefix("bytes=").split("-")
        return int(first), min(int(last) + 1, size) if last else size

    def _body(self, data: bytes, start: int, end: int, asked: Asked) -> None:
        served = self.served
        body = bytearray(data[start:end])
        if served.flips and start <= served.flips[0] < end:
            body[served.flips.pop(0) - start] ^= 1
        limit = served.drops.pop(0) if served.drops else None
        pause, size = served.pause_s, served.piece
        if served.crawls:
            served.crawls -= 1
            pause, size = 1.0, 4096
        stall = served.stalls.pop(0) if served.stalls else 0.0
        for at in range(0, len(body), size):
            piece = body[at : at + size]
            if limit is not None:
                piece = piece[: limit - asked.sent]
            asked.sent += len(piece)  # before it is written: who has it may ask at once
            try:
                self.wfile.write(piece)
            except (BrokenPipeError, ConnectionResetError):
                asked.sent -= len(piece)
                return
            if limit is not None and asked.sent >= limit:
                self.close_connection = True
                return
            time.sleep(stall or pause)
            stall = 0.0

    def log_message(self, format: str, *args: object) -> None:
        """The tests read `asked` instead."""
