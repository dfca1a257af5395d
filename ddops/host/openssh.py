"""OpenSSH's own program for bulk streams: paramiko is two to four times as slow."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from ddops.errors import HostError
from ddops.host.known_hosts import KnownHosts
from ddops.spec.box import Reach

# A shared connection would share its window. Jumps are given the same file by ssh itself.
_CONFIG = """\
Host *
  UserKnownHostsFile {known_hosts}
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 10
  ServerAliveInterval 5
  ServerAliveCountMax 4
  ControlMaster no
  ControlPath none
  ClearAllForwardings yes
  PermitLocalCommand no
  RemoteCommand none
  RequestTTY no
  Compression no
  Ciphers ^aes128-gcm@openssh.com
  LogLevel ERROR
Host *
Include "{user_config}"
"""


class OpenSsh:
    """The user's own configuration, below what a stream needs. Raises `HostError` without `ssh`."""

    def __init__(self, reach: Reach, keys: KnownHosts) -> None:
        if shutil.which("ssh") is None:
            raise HostError("there is no `ssh` here", hint="install the OpenSSH client")
        self.reach = reach
        self._folder = TemporaryDirectory(prefix="ddops-")
        self._config = Path(self._folder.name) / "config"
        files = [keys.path, *([keys.user_file] if keys.user_file else [])]
        known_hosts = " ".join(f'"{path}"' for path in files)
        user_config = Path("~/.ssh/config").expanduser()
        text = _CONFIG.format(known_hosts=known_hosts, user_config=user_config)
        self._config.write_text(text, "utf-8")

    def line(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """What to start here so that `argv` runs there."""
        assert self.reach.host, "a box behind ssh has a host"
        user = ("-l", self.reach.user) if self.reach.user else ()
        port = ("-p", str(self.reach.port)) if self.reach.port else ()
        to = (*user, *port, "--", self.reach.host, shlex.join(argv))
        return ("ssh", "-T", "-F", str(self._config), *to)

    def close(self) -> None:
        self._folder.cleanup()
