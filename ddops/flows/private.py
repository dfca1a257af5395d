"""What is private on this machine, so that it can be kept out of what leaves it."""

from __future__ import annotations

import getpass
import os
import platform
import re
from pathlib import Path

from pydantic import TypeAdapter

from ddops.bundle.redact import Known
from ddops.report.setup import fact
from ddops.spec.record import Record
from ddops.spec.run import Run

_SECRET_NAME = re.compile(r"(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|CREDENTIALS?)$")
_WORD = re.compile(r"\w[\w-]+")


def known_here(run: Run) -> Known:
    """Secrets of the environment and of the deployment's key file; this user, machine, box."""
    user = fact(run.box_facts, "system", "user")
    return Known(
        secrets=(*secrets_of_environment(), *_of_key_file(run)),
        users=(login(), *([user] if isinstance(user, str) else [])),
        hosts=tuple(name for name in {platform.node()} if re.search(r"[\d.-]", name)),
        homes=tuple({str(Path.home())} - {"/", "/root"}),
        vocabulary=_vocabulary(run),
    )


def secrets_of_environment() -> list[str]:
    return [value for name, value in os.environ.items() if _SECRET_NAME.search(name.upper())]


def _of_key_file(run: Run) -> list[str]:
    named = run.found.serving.api_key_file
    try:
        return [Path(named).expanduser().read_text().strip()] if named else []
    except (OSError, UnicodeDecodeError):
        return []


def login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as containers have them
        return ""


def _vocabulary(run: Run) -> frozenset[str]:
    """Every word of the formats and of this matrix: these are never somebody's name."""
    schemas = [TypeAdapter(kind).json_schema() for kind in (Record, Run)]
    return frozenset(_WORD.findall(f"{schemas} {run.matrix.model_dump_json()} {run.box}"))
