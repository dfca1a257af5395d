"""HTTP/1.1 as a load client needs it: one answer at a time on a connection that stays open.

Bytes are stamped and handed on in the call that brings them. A client of httpx takes about ten
times the work for each chunk, which is then what is measured.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

CONNECT_TIMEOUT_S = 10.0
_END = b"\r\n"
_EMPTY = b"\r\n\r\n"
_LONGEST_HEAD = 65_536

Hear = Callable[[bytes, float], None]


class WireError(Exception):
    """The connection broke, or what it brought is not HTTP."""


class _Body(Protocol):
    over: bool

    def feed(self, data: bytes) -> bytes:
        """What of `data` is content."""

    def closed(self) -> bool:
        """Whether the body may end with the connection."""


class _Chunked:
    """A chunk is handed on when it is whole: servers write an event as one."""

    def __init__(self) -> None:
        self.over = False
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        data, at, found = self._rest + data, 0, list[bytes]()
        while (line := data.find(_END, at)) >= 0:
            size = _hexadecimal(data[at:line])
            begin, end = line + 2, line + 2 + size
            if size == 0:
                self.over = data.startswith(_END, begin) or data.find(_EMPTY, begin) >= 0
                break
            if len(data) < end + 2:
                break
            found.append(data[begin:end])
            at = end + 2
        self._rest = data[at:]
        return b"".join(found)

    def closed(self) -> bool:
        return False


class _Counted:
    def __init__(self, length: int) -> None:
        self._left = length
        self.over = length == 0

    def feed(self, data: bytes) -> bytes:
        self._left -= len(data)
        self.over = self._left <= 0
        return data

    def closed(self) -> bool:
        return False


class _ToTheEnd:
    """A server that gives no length closes the connection instead."""

    over = False

    def feed(self, data: bytes) -> bytes:
        return data

    def closed(self) -> bool:
        return True


class Wire(asyncio.Protocol):
    """One connection. `post` again only when the last answer has ended."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = urlsplit(url)
        said = {"Host": _host(self._url), "Accept": "*/*", "Accept-Encoding": "identity", **headers}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._body: _Body | None = None  # None: its head is still to come
        self._hear: Hear = _nobody
        self._answer: asyncio.Future[int] | None = None
        self.status = 0  # of the answer whose body is heard
        self._keeps = True  # the connection, after this answer

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def connect(self, tls: ssl.SSLContext | None) -> None:
        """Raises WireError."""
        port = self._url.port or (80 if tls is None else 443)
        loop = asyncio.get_running_loop()
        making = loop.create_connection(lambda: self, self._url.hostname or "", port, ssl=tls)
        try:
            await asyncio.wait_for(making, CONNECT_TIMEOUT_S)
        except TimeoutError:
            raise WireError("no connection in time") from None
        except OSError as error:
            raise WireError(str(error) or type(error).__name__) from None

    async def post(self, path: str, body: bytes, hear: Hear, sent: Callable[[], None]) -> int:
        """The status of the answer, when it has ended; `hear` gets its body as it comes.

        `sent` is called just before the request is handed to the socket. Raises WireError.
        """
        assert self._transport is not None, "connect first"
        self._head, self._body, self._hear = b"", None, hear
        self._answer = asyncio.get_running_loop().create_future()
        line = f"POST {self._url.path.rstrip('/')}{path} HTTP/1.1\r\n"
        head = f"{line}{self._headers}Content-Length: {len(body)}\r\n\r\n".encode()
        sent()
        self._transport.write(head + body)
        try:
            return await self._answer
        finally:
            self._hear = _nobody
            if not self._keeps or not self._answer.done() or self._answer.cancelled():
                self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a stream"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        at = time.monotonic()
        try:
            if self._body is None:
                data = self._read_head(data)
            if self._body is not None:
                self._read_body(data, at)
        except (ValueError, WireError) as error:
            self._fail(f"this is not HTTP: {error}")
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self._body is not None and self._body.closed() and error is None:
            self._finish()
        else:
            self._fail(str(error) if error else "the service closed the connection")

    def _read_head(self, data: bytes) -> bytes:
        """What of `data` comes after the head, if that is whole."""
        self._head += data
        head, found, rest = self._head.partition(_EMPTY)
        if not found:
            if len(self._head) > _LONGEST_HEAD:
                raise WireError("its head does not end")
            return b""
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, said = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise WireError(first[:40])
        self._head, self.status = b"", int(said[:3])
        if self.status < 200:  # one that goes before the answer
            return self._read_head(rest)
        fields = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        keeps = headers.get("connection", "keep-alive" if version == "HTTP/1.1" else "close")
        self._keeps = "close" not in keeps.lower()
        self._body = _body_of(self.status, headers)
        return rest

    def _read_body(self, data: bytes, at: float) -> None:
        assert self._body is not None, "its head was read"
        if found := self._body.feed(data):
            self._hear(found, at)
        if self._body.over:
            self._finish()

    def _finish(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self.status)

    def _fail(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(WireError(reason))


def _body_of(status: int, headers: Mapping[str, str]) -> _Body:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _Chunked()
    if status in (204, 304):
        return _Counted(0)
    length = headers.get("content-length")
    return _ToTheEnd() if length is None else _Counted(int(length))


def _hexadecimal(line: bytes) -> int:
    """A chunk's size; what follows a semicolon is an extension."""
    size = int(line.partition(b";")[0], 16)
    if size < 0:
        raise WireError(f"a chunk of {size} bytes")
    return size


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def _nobody(_: bytes, __: float) -> None:
    """Bytes that no answer waits for."""
