"""One change at a time: deploy, stop, restart and bench hold the box's lock while they work."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ddops.errors import CheckError
from ddops.flows.site import Site
from ddops.host.base import Held


@contextmanager
def locked(site: Site, verb: str) -> Iterator[None]:
    """Raises `CheckError` naming the holder."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    signed = {"pid": os.getpid(), "machine": platform.node(), "verb": verb, "since": since}
    with ExitStack() as stack:
        try:
            stack.enter_context(site.host.hold(site.place.lock, json.dumps(signed)))
        except Held as held:
            raise _held(site, str(held)) from None
        yield


def _held(site: Site, signed: str) -> CheckError:
    holder = json.loads(signed or "{}")  # empty while it signs
    pid, verb, machine = (holder.get(key, "?") for key in ("pid", "verb", "machine"))
    where = "" if machine == platform.node() else f" on {machine}"
    return CheckError(
        f"`ddops {verb}` is at work on box `{site.box.name}`"
        f" (process {pid}{where}, since {holder.get('since', 'just now')})",
        hint=f"wait for it, or end it with `kill {pid}`{where}",
    )
