"""What is private on this machine, so that it can be kept out of what leaves it."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import psutil
from pydantic import TypeAdapter

from ddops.bundle.redact import Known
from ddops.errors import DdopsError
from ddops.flows.user import login, secrets_of_environment
from ddops.report.setup import fact
from ddops.spec.box import Reach
from ddops.spec.load import load_box
from ddops.spec.record import Record
from ddops.spec.run import Run

_WORD = re.compile(r"\w[\w-]+")


def known_here(run: Run) -> Known:
    """Secrets of the environment and of the deployment's key file; this user, machine, box."""
    user, reach = fact(run.box_facts, "system", "user"), _reach(run.box)
    users = (login(), user, reach.user)
    names = {platform.node(), reach.host or ""} - {run.box}
    return Known(
        secrets=(*secrets_of_environment(), *_of_key_file(run)),
        users=tuple(name for name in users if isinstance(name, str)),
        hosts=tuple(name for name in sorted(names) if _telling(name)),
        addresses=(*addresses_here(), *(name for name in sorted(names) if _address(name))),
        homes=tuple({str(Path.home())} - {"/", "/root"}),
        vocabulary=_vocabulary(run),
    )


def addresses_here() -> Iterator[str]:
    """Of this machine's network cards; not those by which every machine knows itself."""
    for card in psutil.net_if_addrs().values():
        for one in card:
            address = _address(one.address.partition("%")[0])
            if address is not None and not (address.is_loopback or address.is_unspecified):
                yield str(address)


def _reach(box: str) -> Reach:
    """How the box is reached, where its inventory is still to be found."""
    try:
        return load_box(box).reach
    except DdopsError:
        return Reach()


def _telling(name: str) -> bool:
    """A name that is an ordinary word would be taken out of every sentence."""
    return re.search(r"[\d.-]", name) is not None and _address(name) is None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _of_key_file(run: Run) -> list[str]:
    named = run.found.serving.api_key_file
    try:
        return [Path(named).expanduser().read_text().strip()] if named else []
    except (OSError, UnicodeDecodeError):
        return []


def _vocabulary(run: Run) -> frozenset[str]:
    """Every word of the formats and of this matrix: these are never somebody's name."""
    schemas = [TypeAdapter(kind).json_schema() for kind in (Record, Run)]
    return frozenset(_WORD.findall(f"{schemas} {run.matrix.model_dump_json()} {run.box}"))
