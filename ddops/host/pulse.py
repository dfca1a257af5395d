"""Asks the far end of an SSH connection for a sign of life, and closes one that gives none.

TCP alone does not see it when the way goes on behind a jump or a relay that is well itself.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from paramiko import SSHException, Transport


def watch(transport: Transport, every_s: float, silence_s: float) -> None:
    """Until it ends. Who waits on the connection then hears that it broke."""
    threading.Thread(target=_watch, args=(transport, every_s, silence_s), daemon=True).start()


def _watch(transport: Transport, every_s: float, silence_s: float) -> None:
    pause = threading.Event()
    while transport.is_active():
        asking = threading.Thread(target=_ask, args=(transport,), daemon=True)
        asking.start()
        asking.join(silence_s)
        if asking.is_alive():
            transport.close()
        pause.wait(every_s)


def _ask(transport: Transport) -> None:
    """Every server answers a request that it does not know: with a refusal."""
    with suppress(SSHException, OSError, EOFError):
        transport.global_request("keepalive@openssh.com", wait=True)
