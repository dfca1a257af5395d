"""From a unit to the text that a supervisor reads: a systemd unit, or JSON for our own keeper."""

from __future__ import annotations

import json
import re
import shlex

from ddops.errors import SpecError
from ddops.render.template import fill
from ddops.spec.observed import SupervisorKind
from ddops.spec.unit import Unit


def render_unit(unit: Unit, kind: SupervisorKind) -> str:
    if kind == "background":
        return _json(unit)
    needed = (*unit.argv, unit.workdir, unit.env_file)
    return fill(
        "systemd/engine.service.j2",
        unit=unit,
        user_manager=kind == "systemd-user",
        private_tmp=not any(word.startswith(("/tmp/", "/var/tmp/")) for word in needed),
    )


def render_env(variable: str | None, api_key: str | None) -> str:
    """The file with the service's secrets; the engine reads its key from `variable`.

    A key that could break out of its line is refused.
    """
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        raise SpecError("the API key must be one line of printable ASCII")
    if api_key is not None and set(api_key) & set("\"'\\$` "):
        raise SpecError("the API key must not hold quotes, backslashes, `$` or spaces")
    return fill("env/service.env.j2", variable=variable, api_key=api_key)


def _json(unit: Unit) -> str:
    keeper = unit.model_dump(include=KEEPER_FIELDS)
    return json.dumps(keeper, indent=2, sort_keys=True) + "\n"


KEEPER_FIELDS = {
    "argv",
    "workdir",
    "env",
    "env_file",
    "stop_timeout_s",
    "start_limit",
    "start_window_s",
    "restart_delay_s",
    "final_exit_codes",
}
"""What `host/keeper.py` reads; the rest is for systemd."""


def argv_of(text: str, kind: SupervisorKind) -> tuple[str, ...]:
    """The command line of a unit as it was rendered; empty where it cannot be read."""
    try:
        if kind == "background":
            return tuple(str(word) for word in json.loads(text)["argv"])
        line = re.search(r"^ExecStart=(.*)$", text, re.M)
        words = shlex.split(line[1]) if line else ()
    except (ValueError, LookupError, TypeError):
        return ()
    return tuple(word.replace("%%", "%").replace("$$", "$") for word in words)
