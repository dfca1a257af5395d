"""Takes the port, before anything that costs time."""

from __future__ import annotations

import errno
import socket


class ListenError(Exception):
    """The address cannot be listened on; `in_use` says whether somebody else does."""

    def __init__(self, message: str, *, in_use: bool) -> None:
        super().__init__(message)
        self.in_use = in_use


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens already, so that no second server can take the port."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"cannot listen on {host}: {error.strerror}", in_use=False) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(2048)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise ListenError(f"port {port} on {host} is in use", in_use=True) from error
        raise ListenError(
            f"cannot listen on {host} port {port}: {error.strerror}", in_use=False
        ) from error
    return sock
