"""One question to a service over HTTP, and its reply.

With the standard library alone: httpx takes 80 ms to load, which every look at a box would pay.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit


class Unanswered(Exception):
    """No reply came; the text says why."""


@dataclass(frozen=True)
class Reply:
    status: int
    text: str
    seconds: float


@dataclass(frozen=True)
class Service:
    """Whom to ask: its address without a path, for example `http://127.0.0.1:8421`."""

    base_url: str
    api_key: str | None = field(repr=False)
    timeout_s: float = 3.0

    def get(self, path: str) -> Reply:
        return self._ask("GET", path, None)

    def post(self, path: str, body: object) -> Reply:
        return self._ask("POST", path, json.dumps(body).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> Reply:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        where, began = urlsplit(self.base_url), time.monotonic()
        kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
        connection = kind(where.hostname or "", where.port, timeout=self.timeout_s)
        try:
            _connect(connection)
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            text = reply.read().decode("utf-8", "replace")
        except TimeoutError:
            raise Unanswered("no answer in time") from None
        except (OSError, HTTPException) as error:
            raise Unanswered(str(error) or type(error).__name__) from None
        finally:
            connection.close()
        return Reply(reply.status, text, time.monotonic() - began)


def _connect(connection: HTTPConnection) -> None:
    try:
        connection.connect()
    except TimeoutError:
        raise
    except OSError:
        raise Unanswered("nothing answers") from None
