"""The engine's side of the socket: nothing is lost, and no step waits for a server that is slow."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ddtree.core.sequence import Finish, Output, Request
from ddtree.server import wire
from ddtree.server.worker import Mouth, attend, heard, watch
from tests.runtime.server.double import Double, endless

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        yield ours, theirs


def read(sock: socket.socket, count: int) -> list[Any]:
    """The next messages that come."""
    frames, found = wire.Frames(), list[Any]()
    while len(found) < count:
        found += frames.feed(sock.recv(1 << 16))
    return found


def test_what_a_step_brought_is_one_message(pair: Pair) -> None:
    ours, theirs = pair
    mouth = Mouth(theirs)
    mouth.wake()  # nothing came
    for index in range(50):
        mouth.post(Output(f"{index}", (index,)))
    began = time.monotonic()
    mouth.wake()
    mouth.say(wire.Died("over"))
    (at, rows), last = read(ours, 2)
    assert [wire.output_of(row).tokens for row in rows] == [(index,) for index in range(50)]
    assert began <= at <= time.monotonic()
    assert last == wire.Died("over")


def test_a_server_that_does_not_read_holds_up_no_step_and_loses_none(pair: Pair) -> None:
    ours, theirs = pair
    mouth = Mouth(theirs)
    tokens = tuple(range(1000))
    for step in range(500):  # 1.5 MB, more than a socket takes
        mouth.post(Output(f"{step}", tokens))
        mouth.wake()
    heard_steps = read(ours, 500)
    names = [rows[0][0] for _, rows in heard_steps]
    assert names == [f"{step}" for step in range(500)]
    mouth.flush(20)
    mouth.say(wire.Died("over"))
    assert read(ours, 1) == [wire.Died("over")]


def test_nothing_is_lost_between_two_threads(pair: Pair) -> None:
    ours, theirs = pair
    mouth = Mouth(theirs)

    def engine(name: str) -> None:
        for token in range(2000):
            mouth.post(Output(name, (token,)))
            mouth.wake()

    threads = [threading.Thread(target=engine, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    frames, found = wire.Frames(), list[tuple[str, int]]()
    while len(found) < 4000:
        for _, rows in frames.feed(ours.recv(1 << 16)):
            found += [(row[0], row[1][0]) for row in rows]
    for thread in threads:
        thread.join()
    assert sorted(found) == [(name, token) for name in "ab" for token in range(2000)]


def test_nobody_left_to_hear_it_is_no_error(pair: Pair) -> None:
    ours, theirs = pair
    ours.close()
    mouth = Mouth(theirs)
    mouth.post(Output("a", (1,)))
    mouth.wake()
    mouth.flush(1)


def attending(engine: Double, theirs: socket.socket) -> tuple[threading.Thread, list[bool]]:
    mouth, said = Mouth(theirs), list[bool]()
    engine.on_step = mouth.wake
    engine.start()
    thread = threading.Thread(target=lambda: said.append(attend([engine], mouth, heard(theirs))))
    thread.start()
    threading.Thread(target=watch, args=(engine, mouth), daemon=True).start()
    return thread, said


def test_it_answers_aborts_counts_and_stops(pair: Pair) -> None:
    ours, theirs = pair
    engine = Double(endless, gate=threading.Semaphore(1))
    thread, said = attending(engine, theirs)
    ours.sendall(wire.framed(wire.Ask((Request("long", (1, 2, 3), 100),), ())))
    ((_, rows),) = read(ours, 1)
    assert wire.output_of(rows[0]).tokens == tuple(b"abc ")
    ours.sendall(wire.framed(wire.Look()))
    assert read(ours, 1) == [engine.stats()]
    ours.sendall(wire.framed(wire.Ask((), ("long", "unknown"))))
    ((_, rows),) = read(ours, 1)
    assert wire.output_of(rows[0]).finish is Finish.ABORT
    ours.sendall(wire.framed(wire.Stop()))
    thread.join(20)
    assert said == [True]
    assert not engine.alive


def test_what_comes_too_late_for_an_engine_is_told_so(pair: Pair) -> None:
    ours, theirs = pair
    engine = Double()
    thread, said = attending(engine, theirs)
    ours.sendall(wire.framed(wire.Ask((Request("late", tuple(b"refuse"), 1),), ())))
    ((_, rows),) = read(ours, 1)
    last = wire.output_of(rows[0])
    assert (last.finish, last.error) == (Finish.ERROR, "the prompt does not fit into the cache")
    engine.die("CUDA error")
    assert read(ours, 1) == [wire.Died("CUDA error")]
    ours.shutdown(socket.SHUT_WR)
    thread.join(20)
    assert said == [False], "the server is gone"
