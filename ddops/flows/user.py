"""Who runs ddops, and what of their environment is secret."""

from __future__ import annotations

import getpass
import os
import re

_SECRET_NAME = re.compile(r"(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|CREDENTIALS?)$")


def login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as containers have them
        return ""


def secrets_of_environment() -> list[str]:
    return [value for name, value in os.environ.items() if _SECRET_NAME.search(name.upper())]
