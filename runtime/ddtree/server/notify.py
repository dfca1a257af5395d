"""Tells systemd how far the service is; ten lines need no package."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """`state` such as `READY=1`. Does nothing where no supervisor listens."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with (
        suppress(OSError),  # a supervisor that went away must not take the service along
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to,
    ):
        to.sendto(state.encode(), address)
