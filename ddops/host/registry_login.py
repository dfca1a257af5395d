"""Who one is to an OCI registry: from the environment, docker's configuration, or a prompt.

Nothing of it is ever on a command line; a credential helper says its secret on a pipe.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ddops.errors import UsageError

USER: Final = "DDOPS_REGISTRY_USER"
PASSWORD: Final = "DDOPS_REGISTRY_PASSWORD"
_HELPER: Final = re.compile(r"^[\w-]+$", re.ASCII)
_HELPER_S: Final = 30.0


@dataclass(frozen=True)
class Login:
    user: str
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        return base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def login(host: str) -> Login | None:
    """What is written down for `host`; None: nothing is, and nobody has been asked."""
    if password := os.environ.get(PASSWORD):
        return Login(os.environ.get(USER, ""), password)
    configured = _configuration()
    helper = (configured.get("credHelpers") or {}).get(host) or configured.get("credsStore")
    if helper and (found := _of_helper(str(helper), host)):
        return found
    known = (configured.get("auths") or {}).get(host)
    return _decoded(known) if isinstance(known, dict) else None


def ask(host: str) -> Login | None:
    """On the terminal; None where nobody sits at one."""
    if not sys.stdin.isatty():
        return None
    sys.stderr.write(f"user of {host}: ")
    sys.stderr.flush()
    user = sys.stdin.readline().strip()
    return Login(user, getpass.getpass(f"password of {user}: ", stream=sys.stderr))


def _configuration() -> dict[str, Any]:
    folder = os.environ.get("DOCKER_CONFIG")
    path = (Path(folder) if folder else Path.home() / ".docker") / "config.json"
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}", hint=f"mend it, or set {USER} and {PASSWORD}"
        ) from None
    return found if isinstance(found, dict) else {}


def _of_helper(name: str, host: str) -> Login | None:
    """`docker-credential-NAME get` reads the host and answers with user and secret."""
    program = shutil.which(f"docker-credential-{name}") if _HELPER.match(name) else None
    if program is None:
        return None
    said = subprocess.run(
        [program, "get"], input=host.encode(), capture_output=True, check=False, timeout=_HELPER_S
    )
    try:
        found = json.loads(said.stdout) if said.returncode == 0 else {}
        return Login(found["Username"], found["Secret"])
    except (ValueError, KeyError, TypeError):
        return None


def _decoded(known: dict[str, Any]) -> Login | None:
    try:
        user, _, password = base64.b64decode(known.get("auth", "")).decode().partition(":")
    except ValueError:
        return None
    return Login(user, password) if password else None
