"""Where a box is not what its inventory says, or no longer what passed its gate."""

from __future__ import annotations

from ddops.analysis import drift
from ddops.errors import ServiceError
from ddops.facts import process, service
from ddops.facts.look import look, look_environment
from ddops.flows.advise import ask
from ddops.flows.plan import Rendered, render
from ddops.flows.site import Site
from ddops.render.unit import argv_of
from ddops.spec.command import Run
from ddops.spec.deployment import Weights
from ddops.spec.drift import Drift
from ddops.spec.generation import Generation
from ddops.spec.observed import Observed

_PRIVATE = "600"


def diff(site: Site) -> list[Drift]:
    """Raises `ServiceError` when nothing was deployed."""
    seen, proven = look(site.host, site.box), site.generation()
    if proven is None:
        raise ServiceError(
            f"nothing is deployed on box `{site.box.name}`", hint=f"`ddops deploy {site.box.name}`"
        )
    wish = site.box.deployment
    rendered = render(site, wish, ask(site, wish, seen))
    return [
        *drift.deployment(wish, proven.deployment),
        *_unit(site, seen, rendered),
        *_secrets(site, seen, rendered),
        *_running(site, seen),
        *_environment(site, proven),
        *_weights(site, seen),
        *drift.drivers(proven.drivers, [gpu.driver for gpu in seen.gpus]),
    ]


def _unit(site: Site, seen: Observed, rendered: Rendered) -> list[Drift]:
    found = drift.text(rendered.unit, _on_box(site, seen))
    if seen.service.kind != "background" and _unread(site, seen):
        there = "systemd still has an older one: `systemctl daemon-reload`"
        found.append(
            Drift(subject="unit", what="loaded", wanted="the unit on the disk", there=there)
        )
    return found


def _on_box(site: Site, seen: Observed) -> str:
    text = site.host.read(site.place.unit_path(seen.service.kind)) or b""
    return text.decode("utf-8", "replace")


def _unread(site: Site, seen: Observed) -> bool:
    asked = service.command(site.place, seen.service.kind, properties="NeedDaemonReload")
    return site.host.run(asked).stdout.strip() == "NeedDaemonReload=yes"


def _secrets(site: Site, seen: Observed, rendered: Rendered) -> list[Drift]:
    """That they differ, never what they are."""
    path, found = site.place.env_file, []
    if rendered.env_sha256 != seen.service.env_sha256:
        there = "other ones" if seen.service.env_sha256 else "no such file"
        found.append(Drift(subject="secrets", what=path, wanted="as `api_key_file`", there=there))
    stat = Run(argv=("stat", "-c", "%a", path), why="look who may read the secrets")
    mode = site.host.run(stat).stdout.strip()
    if mode and mode != _PRIVATE:
        wanted, there = f"mode {_PRIVATE}", f"mode {mode}"
        found.append(Drift(subject="secrets", what=path, wanted=wanted, there=there))
    return found


def _running(site: Site, seen: Observed) -> list[Drift]:
    """The process against the unit on the box: it may be older than that."""
    pid, state = seen.service.pid, seen.service.state
    if pid is None:
        return [Drift(subject="process", what="state", wanted="running", there=state)]
    words = process.parse(site.host.run(process.command(pid)).stdout)
    if not words:
        return []  # it has just ended, or this kernel does not tell
    wanted = argv_of(_on_box(site, seen), seen.service.kind)
    # The first word may be a script that became another program.
    return drift.arguments(wanted[1:], words[1:])


def _environment(site: Site, proven: Generation) -> list[Drift]:
    return drift.packages(proven.environment, look_environment(site.host, site.place))


def _weights(site: Site, seen: Observed) -> list[Drift]:
    wish = site.box.deployment
    found = drift.weights(wish.model.weights, seen.model)
    drafter = wish.decoding.drafter
    if isinstance(drafter, Weights) and seen.drafter:
        found += drift.weights(drafter, seen.drafter)
    return found
