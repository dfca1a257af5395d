"""The key that a box showed at first contact: recorded with the inventories, no other accepted.

The user's own known_hosts is asked too; nothing is ever written there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from paramiko import HostKeys, MissingHostKeyPolicy, PKey, SSHClient

from ddops.errors import HostError
from ddops.host import atomic

Tell = Callable[[str], None]


class KnownHosts(MissingHostKeyPolicy):
    """Asked for every connection, so `SSHClient` must know no keys of its own."""

    def __init__(
        self, path: Path, box: str, *, tell: Tell, pin: str | None = None, user_file: Path | None
    ) -> None:
        self.path, self.box, self.tell, self.pin = path, box, tell, pin
        self.user_file = user_file

    def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:
        """Raises `HostError` when this is not the key that is expected from `hostname`."""
        ours = _keys(self.path, hostname)
        theirs = _keys(self.user_file, hostname) if self.user_file and not ours else {}
        same_kind = {kind: k for kind, k in theirs.items() if kind == key.get_name()}
        known = ours or same_kind
        if key in known.values():
            if not ours:
                self._record(hostname, key)
        elif self.pin is not None:
            self._compare_with_pin(hostname, key)
            self._record(hostname, key)
        elif known:
            raise self._changed(hostname, key, next(iter(known.values())))
        else:
            self._record(hostname, key)
            self.tell(f"first contact with {hostname}: its key {fingerprint(key)} is recorded")

    def _compare_with_pin(self, hostname: str, key: PKey) -> None:
        if self.pin != fingerprint(key):
            raise HostError(
                f"{hostname} is not the expected machine",
                detail=f"it shows  {fingerprint(key)}\nexpected  {self.pin}",
                hint="ask the box's provider for its fingerprint, and whether the address is right",
            )

    def _changed(self, hostname: str, key: PKey, known: PKey) -> HostError:
        return HostError(
            f"{hostname} shows another key than before: reinstalled, or another machine",
            detail=f"it shows  {fingerprint(key)}\nrecorded  {fingerprint(known)}",
            hint="if its provider confirms the new one:"
            f" `ddops inspect {self.box} --pin {fingerprint(key)}`",
        )

    def _record(self, hostname: str, key: PKey) -> None:
        """One line for this name, whatever stood there. Others may be recording theirs."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            self._rewrite(hostname, key)
        finally:
            os.close(folder)

    def _rewrite(self, hostname: str, key: PKey) -> None:
        text = self.path.read_text("utf-8") if self.path.exists() else ""
        kept = [line for line in text.splitlines() if line.split(" ", 1)[0] != hostname]
        line = f"{hostname} {key.get_name()} {key.get_base64()}"
        atomic.write(self.path, ("\n".join([*kept, line]) + "\n").encode())


def fingerprint(key: PKey) -> str:
    """As `ssh-keygen -l` prints it."""
    return str(key.fingerprint)


def default_path() -> Path:
    """Beside the project's inventories, so that it can be committed with them."""
    named = os.environ.get("DDOPS_KNOWN_HOSTS")
    return Path(named) if named else Path.cwd() / "inventories" / "known_hosts"


def _keys(path: Path | None, hostname: str) -> dict[str, PKey]:
    if path is None or not path.exists():
        return {}
    found = HostKeys(str(path)).lookup(hostname)
    return dict(found.items()) if found else {}
