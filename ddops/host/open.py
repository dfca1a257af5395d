"""From an inventory to the hands that reach its box, and to where things lie on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from platformdirs import user_config_dir, user_data_dir

from ddops.errors import HostError
from ddops.host.base import Host
from ddops.host.local import Local
from ddops.spec.box import Box
from ddops.spec.place import Place


def open_host(box: Box) -> Host:
    if box.reach.via == "local":
        return Local()
    raise HostError(
        f"box `{box.name}` is reached by {box.reach.via}, which this version cannot do",
        hint="log in to it, install ddops there, and deploy it as `via: local`",
    )


def place_of(box: Box) -> Place:
    """`DDOPS_HOME` moves the state of a box, `DDOPS_PYTHON` names the engine's interpreter."""
    default = os.environ.get("DDOPS_HOME") or user_data_dir("ddops")
    root = Path(box.state_dir or default).expanduser().absolute()
    return Place(
        root=str(root),
        box=box.name,
        python=_python(),
        engine_python=os.environ.get("DDOPS_PYTHON") or _python(),
        user_units=f"{user_config_dir('systemd')}/user",
    )


def _python() -> str:
    """One name for this interpreter however ddops was started, or every unit would differ."""
    name = Path(sys.prefix) / "bin" / "python"
    return str(name) if name.exists() and name.samefile(sys.executable) else sys.executable
