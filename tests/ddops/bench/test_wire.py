"""The load client's HTTP/1.1, against a server that says what it is told, however it is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ddops.bench.wire import Wire, WireError

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TWO = CHUNKED + b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n"


class Server:
    """Answers each request with the next of `answers`, piece by piece; None closes."""

    def __init__(self, *answers: Sequence[bytes | None]) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.asked = list[bytes]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.asked.append(head + await reader.readexactly(length))
                for piece in self.answers.pop(0):
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.002)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class Heard:
    def __init__(self) -> None:
        self.parts, self.times = list[bytes](), list[float]()

    def hear(self, data: bytes, at: float) -> None:
        self.parts.append(data)
        self.times.append(at)


def asked(server: Server, times: int = 1) -> tuple[list[tuple[int, bytes]], bool]:
    """Status and body of each answer on one connection, and whether that stays open."""

    async def main() -> tuple[list[tuple[int, bytes]], bool]:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/under"
        wire, found = Wire(url, {"Authorization": "Bearer k"}), []
        try:
            await wire.connect(None)
            for _ in range(times):
                heard = Heard()
                status = await wire.post("/v1/x", b"{}", heard.hear, lambda: None)
                assert heard.times == sorted(heard.times)
                found.append((status, b"".join(heard.parts)))
            return found, wire.open
        finally:
            wire.close()
            listening.close()

    return asyncio.run(main())


@pytest.mark.parametrize("cut", range(1, len(TWO)))
def test_a_chunked_answer_is_read_wherever_it_is_cut(cut: int) -> None:
    found, is_open = asked(Server([TWO[:cut], TWO[cut:]]))
    assert found == [(200, b"abc0123456789")]
    assert is_open


def test_answers_follow_each_other_on_one_connection() -> None:
    counted = b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnope"
    trailers = CHUNKED + b"1\r\nz\r\n0\r\nX-Sum: 1\r\n\r\n"
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    server = Server([TWO], [counted], [trailers], [early, TWO], [b"HTTP/1.1 204 No\r\n\r\n"])
    found, is_open = asked(server, 5)
    assert found == [
        (200, b"abc0123456789"),
        (404, b"nope"),
        (200, b"z"),
        (200, b"abc0123456789"),
        (204, b""),
    ]
    assert is_open
    assert server.connections == 1
    assert server.asked[0].startswith(b"POST /under/v1/x HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Authorization: Bearer k\r\n" in server.asked[0]
    assert server.asked[0].endswith(b"Content-Length: 2\r\n\r\n{}")


@pytest.mark.parametrize(
    "answer",
    [
        [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"],
        [b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc"],
        [b"HTTP/1.1 200 OK\r\n\r\na", b"bc", None],
    ],
)
def test_a_connection_that_ends_with_its_answer_is_not_used_again(
    answer: list[bytes | None],
) -> None:
    found, is_open = asked(Server(answer))
    assert found == [(200, b"abc")]
    assert not is_open


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([None], "the service closed the connection"),
        ([CHUNKED + b"3\r\nab", None], "the service closed the connection"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", None], "closed the connection"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], "this is not HTTP: SSH-2.0-OpenSSH_9.2"),
        ([CHUNKED + b"xyz\r\n"], "this is not HTTP: invalid literal"),
        ([CHUNKED + b"-3\r\nabc\r\n"], "this is not HTTP: a chunk of -3 bytes"),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000], "its head does not end"),
    ],
)
def test_what_breaks_says_how(answer: list[bytes | None], said: str) -> None:
    with pytest.raises(WireError, match=said):
        asked(Server(answer))


def test_nobody_there_is_an_error_of_the_wire() -> None:
    with pytest.raises(WireError, match="111"):
        asyncio.run(Wire("http://127.0.0.1:9", {}).connect(None))


def test_an_answer_that_is_cancelled_closes_its_connection() -> None:
    async def main() -> bool:
        listening = await asyncio.start_server(Server([CHUNKED]).serve, "127.0.0.1", 0)
        wire = Wire(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", {})
        await wire.connect(None)
        asking = asyncio.create_task(wire.post("/", b"{}", lambda *_: None, lambda: None))
        await asyncio.sleep(0.02)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        listening.close()
        return wire.open

    assert not asyncio.run(main())
