"""Whoever works on boxes from this machine: a home folder with keys, and hands made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddops.host.connection import Patience
from ddops.host.known_hosts import KnownHosts
from ddops.host.ssh import Ssh
from ddops.spec.box import Reach
from tests.box.box import Box
from tests.box.rootfs import key

QUICK = Patience(connect_s=5.0, silence_s=4.0)


@dataclass
class Operator:
    home: Path
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.home / ".ssh").mkdir(mode=0o700)
        self.configure(f"Host *\n  IdentityFile {key()}\n  IdentitiesOnly yes\n")

    @property
    def known_hosts(self) -> Path:
        return self.home / "inventories" / "known_hosts"

    def configure(self, text: str) -> None:
        (self.home / ".ssh" / "config").write_text(text, "utf-8")

    def hands(self, box: Box | str, *, pin: str | None = None, **reach: Any) -> Ssh:
        host = box if isinstance(box, str) else box.address
        wanted = {"user": "root", **reach}
        keys = KnownHosts(
            self.known_hosts,
            "b300",
            tell=self.told.append,
            pin=pin,
            user_file=self.home / ".ssh" / "known_hosts",
        )
        return Ssh("b300", Reach(via="ssh", host=host, **wanted), keys, QUICK)
