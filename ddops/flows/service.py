"""The running service of a box: what is deployed, and how to put another deployment in its place.

`ddops bench` uses this to walk through a matrix and to leave the box as it found it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ddops.errors import UsageError
from ddops.facts.look import api_key, look, look_service, way_to
from ddops.flows import gate
from ddops.flows.advise import Asked, ask
from ddops.flows.logs import log_tail as log_tail
from ddops.flows.perform import perform
from ddops.flows.plan import render
from ddops.flows.site import Site
from ddops.flows.voice import Silent, Voice
from ddops.host.base import Host
from ddops.spec.box import Box
from ddops.spec.deployment import Deployment
from ddops.spec.observed import Observed
from ddops.steps import service, unit


@dataclass(frozen=True)
class Served:
    """A service that has passed its gate."""

    deployment: Deployment
    base_url: str  # for this machine, without a path: `http://127.0.0.1:8421`
    api_key: str | None = field(repr=False)
    unit: str  # the rendered unit, as it lies on the box
    unit_sha256: str
    pid: int
    logs: Callable[[int], str] = field(repr=False)  # the last n lines


def current(host: Host, box: Box) -> Deployment | None:
    """What `ddops deploy` left on the box; None before the first. `switch` does not change it."""
    proven = Site(host, box).generation()
    return proven.deployment if proven else None


def switch(host: Host, box: Box, deployment: Deployment, *, voice: Voice | None = None) -> Served:
    """Look at the box, then `serve`."""
    site = Site(host, box.model_copy(update={"deployment": deployment}))
    return serve(site, ask(site, deployment, look(host, site.box)), voice or Silent())


def serve(site: Site, asked: Asked, voice: Voice) -> Served:
    """Render the unit of the site's deployment, restart the service with it, wait for the gate.

    The weights must be on the box. Always restarts, so counters and caches begin at zero.
    `ServiceError` carries the verdict (exit code, what it means, the log's tail) as its detail.
    Raises `UsageError` for a router.
    Takes no lock: the caller holds `lock.locked` for as long as its switches belong together.
    """
    host, deployment = site.host, site.box.deployment
    if deployment.router:
        raise UsageError(
            f"`{site.box.name}` is a router: it decodes nothing that could be measured or searched",
            hint=f"name one of its replicas: {', '.join(deployment.router.replicas)}",
        )
    before = asked.known.box
    running = look_service(host, site.place, before.service)
    seen = before.model_copy(update={"service": running})
    rendered = render(site, deployment, asked)
    put = unit.plan(rendered.unit, rendered.env, seen=seen, place=site.place)
    why = f"to serve {deployment.decoding.label}"
    for command in (*put, *service.restart(running, site.place, why)):
        perform(site, command, voice)
    ready = gate.wait(site, deployment, voice)
    assert ready.pid is not None, "a service that passed its gate has a process"
    return Served(
        deployment=deployment,
        base_url=way_to(host, deployment.serving),
        api_key=api_key(host, deployment.serving),
        unit=rendered.unit,
        unit_sha256=rendered.unit_sha256,
        pid=ready.pid,
        logs=partial(log_tail, site),
    )


def facts_digest(observed: Observed) -> str:
    """sha256 of what makes two boxes the same for a measurement: system, Python, GPUs."""
    fixed = observed.model_copy(
        update={
            "system": observed.system.model_copy(update={"disk_free": 0, "memory_available": 0})
        }
    )
    text = fixed.model_dump_json(include={"system", "python", "gpus"})
    return hashlib.sha256(text.encode()).hexdigest()
