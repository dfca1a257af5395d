"""One change at a time: deploy, stop, restart and bench hold the box's lock while they work.

The kernel gives the lock back when its holder ends, however it ends: there are no stale locks.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddops.errors import CheckError
from ddops.flows.site import Site


@contextmanager
def locked(site: Site, verb: str) -> Iterator[None]:
    """Raises `CheckError` naming the holder."""
    path = Path(site.place.lock)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _held(site, path) from None
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "verb": verb, "since": since}))
        file.flush()
        yield


def _held(site: Site, path: Path) -> CheckError:
    holder = json.loads(path.read_text("utf-8") or "{}")  # empty while it signs
    pid, verb = holder.get("pid", "?"), holder.get("verb", "")
    return CheckError(
        f"`ddops {verb}` is at work on box `{site.box.name}`"
        f" (process {pid}, since {holder.get('since', 'just now')})",
        hint=f"wait for it, or end it with `kill {pid}`",
    )
