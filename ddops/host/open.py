"""From an inventory to the hands that reach its box, and to where things lie on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from platformdirs import user_config_dir, user_data_dir

from ddops.host.base import Host
from ddops.host.local import Local
from ddops.spec.box import Box
from ddops.spec.place import Place


def open_host(box: Box, *, pin: str | None = None) -> Host:
    """`pin` is the fingerprint that the box's own key must have. Nothing is connected yet."""
    if box.reach.via == "local":
        return Local()
    from ddops.host import known_hosts, ssh  # 0.2 s that a local box need not pay

    keys = known_hosts.KnownHosts(
        known_hosts.default_path(),
        box.name,
        tell=_tell,
        pin=pin,
        user_file=Path("~/.ssh/known_hosts").expanduser(),
    )
    return ssh.Ssh(box.name, box.reach, keys)


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def place_of(host: Host, box: Box) -> Place:
    return _local_place(box) if box.reach.via == "local" else _far_place(host, box)


def _far_place(host: Host, box: Box) -> Place:
    """This machine's environment says nothing about another one."""
    root = _below(host.home, box.state_dir or "~/.local/share/ddops")
    streamed = f"{root}/venv/bin/python"
    python = _below(host.home, box.python or streamed)
    return Place(
        root=root,
        box=box.name,
        python=python,
        engine_python=streamed if box.deployment.environment else python,
        user_units=f"{host.home}/.config/systemd/user",
    )


def _below(home: str, path: str) -> str:
    return f"{home}/{path[2:]}" if path.startswith("~/") else path


def _local_place(box: Box) -> Place:
    """`DDOPS_HOME` moves the state of a box, `DDOPS_PYTHON` names the engine's interpreter where
    the box itself names none.
    """
    default = os.environ.get("DDOPS_HOME") or user_data_dir("ddops")
    root = Path(box.state_dir or default).expanduser().absolute()
    named = box.python or os.environ.get("DDOPS_PYTHON") or _python()
    return Place(
        root=str(root),
        box=box.name,
        python=_python(),
        engine_python=f"{root}/venv/bin/python" if box.deployment.environment else named,
        user_units=f"{user_config_dir('systemd')}/user",
    )


def _python() -> str:
    """One name for this interpreter however ddops was started, or every unit would differ."""
    name = Path(sys.prefix) / "bin" / "python"
    return str(name) if name.exists() and name.samefile(sys.executable) else sys.executable
