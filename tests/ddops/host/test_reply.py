"""One question over HTTP: what is sent, what comes back, and why nothing does."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ddops.host.reply import Service, Unanswered


@contextmanager
def one_question(talk: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """The address of a service that takes one question whole; `talk` gets it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                asked = line.recv(4096)
                while not whole(asked):
                    asked += line.recv(4096)
                talk(line, asked)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def whole(asked: bytes) -> bool:
    """The body may come after its head."""
    head, _, body = asked.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    return b"\r\n\r\n" in asked and len(body) == int(length[1] if length else 0)


def test_a_question_carries_its_key_and_body_and_any_status_is_a_reply() -> None:
    heard: list[bytes] = []

    def talk(line: socket.socket, asked: bytes) -> None:
        heard.append(asked)
        line.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nw\xc3\xa4\xff")

    with one_question(talk) as url:
        reply = Service(url, "s3cret").post("/v1/x", {"a": "ä"})
    assert (reply.status, reply.text) == (503, "wä\ufffd")
    head, body = heard[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x HTTP/1.1\r\n")
    assert b"Authorization: Bearer s3cret" in head
    assert json.loads(body) == {"a": "ä"}


def test_without_a_key_none_is_sent_and_a_repr_never_shows_one() -> None:
    heard: list[bytes] = []

    def talk(line: socket.socket, asked: bytes) -> None:
        heard.append(asked)
        line.sendall(b"HTTP/1.1 200 OK\r\n\r\nall until the end")

    with one_question(talk) as url:
        assert Service(url, None).get("/ready").text == "all until the end"
    assert b"Authorization" not in heard[0]
    assert "s3cret" not in repr(Service(url, "s3cret"))


def test_no_reply_says_why() -> None:
    def hang_up(line: socket.socket, asked: bytes) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")

    def sleep(line: socket.socket, asked: bytes) -> None:
        time.sleep(0.2)

    with one_question(hang_up) as url, pytest.raises(Unanswered, match="IncompleteRead"):
        Service(url, None).get("/")
    with one_question(sleep) as url, pytest.raises(Unanswered, match="no answer in time"):
        Service(url, None, timeout_s=0.05).get("/")
    with pytest.raises(Unanswered, match="nothing answers"):
        Service(url, None).get("/")
