"""A port of the box as a port of this machine, for as long as the connection lives."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress

from paramiko import Channel, SSHException

Open = Callable[[str, int], Channel]
"""Opens a way to (address, port) as the box sees them."""

_BLOCK = 1 << 16  # bytes


class Tunnel:
    """Listens on loopback, on a port that the system chooses."""

    def __init__(self, address: str, port: int, way: Open) -> None:
        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(SSHException, OSError, EOFError):  # the client sees it closed
                    _carry(self.request, way(address, port))

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        serve = {"poll_interval": 0.05}
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs=serve, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def _carry(here: socket.socket, there: Channel) -> None:
    here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    back = threading.Thread(target=_pump_back, args=(there, here), daemon=True)
    back.start()
    try:
        while data := here.recv(_BLOCK):
            there.sendall(data)
        there.shutdown_write()
        back.join()
    finally:
        there.close()


def _pump_back(there: Channel, here: socket.socket) -> None:
    with suppress(OSError):
        while data := there.recv(_BLOCK):
            here.sendall(data)
    with suppress(OSError):  # wakes the other direction up
        here.shutdown(socket.SHUT_RDWR)
