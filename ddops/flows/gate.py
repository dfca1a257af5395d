"""The gate of a started service: process alive, port answers, one token generated. Or a verdict."""

from __future__ import annotations

import time

from ddops.bench.failure import classify
from ddops.engines.table import ENGINES
from ddops.errors import ServiceError
from ddops.facts import health, replicas
from ddops.facts.look import api_key, way_to
from ddops.flows.logs import log_tail
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.deployment import Deployment, EngineName, Router
from ddops.spec.observed import Health, Service
from ddops.spec.record import FailureKind

MEANING = {
    1: ("the engine crashed", None),
    2: ("the engine refused its arguments", "`ddops explain {box}` shows them with their reasons"),
    126: ("the engine's Python cannot be executed", "`ddops inspect {box}` shows which it is"),
    127: ("the engine's Python cannot be started", "`ddops inspect {box}` shows which it is"),
    203: ("the engine's Python cannot be started", "`ddops inspect {box}` shows which it is"),
    -9: ("it was killed, most often because memory ran out", "look at `free -m` and `dmesg`"),
}
OWN_MEANING = {
    3: ("the model or the drafter cannot be loaded", "the log says which file"),
    4: (
        "out of memory",
        "lower `context_length`, `max_running_requests` or `kv_tokens` in the inventory",
    ),
    5: ("the port is in use", "choose another `port` in the inventory"),
    6: ("one of the processes that share the model died", "the log says which, and of what"),
}
"""Codes that only the bundled engine gives this meaning."""
SYMPTOMS: dict[FailureKind, tuple[str, str]] = {
    "illegal-access": ("an illegal memory access", "try `graphs: off` or a smaller `budget`"),
    "cublas": ("a failed matrix product", "lower `max_running_requests` or `budget`"),
    "out-of-memory": (
        "out of memory",
        "lower `context_length`, `max_running_requests` or `kv_tokens` in the inventory",
    ),
    "jit": ("a kernel that could not be compiled", "`ddops check {box}` says what is missing"),
    "nccl": ("GPUs that could not talk to each other", "set `nvls: off`; `ddops check {box}`"),
}
"""What the log may say of a crash, by the kind of failure it means."""
TAIL = 30  # lines of log in a verdict
_POLL_S = 0.15
_LONGEST_POLL_S = 1.0  # asking costs processor time, which a loading model on a CPU needs
_SEEN_WITHIN_S = 1.0  # a connection breaks before its process has ended
_SETTLED_S = 3.0  # of a box that follows: bad arguments and a missing module end it before
_QUEUED_S = 2.0  # systemd may still say `inactive` while the start job waits in its queue


def wait(site: Site, deployment: Deployment, voice: Voice) -> Service:
    """Returns at the first token; on a box that follows, when it has lived for a while.

    Raises `ServiceError` at once when the process ends.
    """
    serving, engine = deployment.serving, ENGINES[deployment.engine]
    url, key = way_to(site.host, serving), api_key(site.host, serving)
    began, status, answered = time.monotonic(), "", False
    what = "to generate its first token" if deployment.router is None else "behind every address"
    with voice.step(f"wait for {deployment.model.name} {what}"):
        while True:
            seen = site.service()
            elapsed = time.monotonic() - began
            if _ended(seen, elapsed):
                when = "answered, then died" if answered else "died"
                raise _dead(site, seen, f"{when} after {elapsed:.1f} s")
            answer = health.FOLLOWS if deployment.follows else health.look(url, key, engine)
            if answer.ready and deployment.router:
                answer = _reaching(site, deployment.router, answer)
            answered = answered or answer.alive
            if answer.ready and (elapsed > _SETTLED_S or not deployment.follows):
                return seen
            if answer.status != status:
                status = answer.status
                voice.detail(f"  {elapsed:.1f} s: {status}")
            if elapsed > deployment.ready_timeout_s:
                raise _never_ready(site, status, elapsed)
            time.sleep(min(max(_POLL_S, elapsed / 10), _LONGEST_POLL_S))


def _reaching(site: Site, router: Router, answer: Health) -> Health:
    """A router is ready when its box reaches every replica, whatever it says itself."""
    said = site.host.run(replicas.command(site.place.engine_python, router))
    lacking = replicas.parse(said.stdout, router) if said.ok else {"": said.stderr.strip()}
    if not lacking:
        return answer
    name, why = next(iter(lacking.items()))
    return Health(alive=True, ready=False, status=f"replica `{name}` is not reached: {why}")


def _ended(seen: Service, elapsed: float) -> bool:
    """A restart counts as an end: what crashed once at start will crash again."""
    if seen.state == "stopped" and seen.exit_code is None:
        return elapsed > _QUEUED_S
    if seen.state == "starting" and seen.exit_code is not None:
        return True  # between two tries: the next one would hide the exit code
    return seen.state in ("failed", "stopped", "absent") or seen.restarts > 0


def ended(site: Site, when: str) -> ServiceError | None:
    """The verdict, if the service that was ready has ended; it may take a moment to be seen."""
    until = time.monotonic() + _SEEN_WITHIN_S
    while time.monotonic() < until:
        seen = site.service()
        if _ended(seen, _QUEUED_S + 1):
            return _dead(site, seen, when)
        time.sleep(_POLL_S)
    return None


def _dead(site: Site, seen: Service, when: str) -> ServiceError:
    code, tail = seen.exit_code, _tail(site)
    meaning, hint = _meaning(site.box.deployment.engine, code or 0, tail)
    what = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return ServiceError(
        f"the service of box `{site.box.name}` {when}: {meaning} ({what})",
        detail=tail,
        hint=(hint or "`ddops logs {box} -n 200` shows more").format(box=site.box.name),
    )


def _meaning(engine: EngineName, code: int, log: str) -> tuple[str, str | None]:
    """By the exit code; what only says that it crashed is looked for in the log."""
    known = MEANING | OWN_MEANING if engine == "ddtree" else MEANING
    meaning, hint = known.get(code, ("the service ended", None))
    symptom = SYMPTOMS.get(classify(log) or "other") if hint is None else None
    return (f"{meaning}: {symptom[0]}", symptom[1]) if symptom else (meaning, hint)


def _never_ready(site: Site, status: str, elapsed: float) -> ServiceError:
    return ServiceError(
        f"the service of box `{site.box.name}` lives, but was not ready after {elapsed:.0f} s:"
        f" {status}",
        detail=_tail(site),
        hint="raise `ready_timeout_s` in the inventory if the log shows that it is only slow",
    )


def _tail(site: Site) -> str:
    """Only of this start: both our keeper's log and the journal go on across starts."""
    text = log_tail(site, TAIL).rstrip()
    for mark in ("] started process ", f"Starting {site.place.service}.service"):
        text = text.rpartition(mark)[2]
    lines = text.partition("\n")[2] or text  # what is left of the marking line says nothing
    return f"the end of its log:\n{lines}" if lines else "its log is empty"
