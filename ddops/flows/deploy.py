"""Make a box serve what its inventory says: apply the plan, wait for the gate, ask one question."""

from __future__ import annotations

from dataclasses import dataclass

from ddops.errors import DdopsError
from ddops.facts.look import base_url
from ddops.flows import gate, packages, smoke
from ddops.flows.generations import prove
from ddops.flows.generations import put_back as back
from ddops.flows.history import recorded
from ddops.flows.plan import Plan
from ddops.flows.site import Site
from ddops.flows.voice import Voice


@dataclass(frozen=True)
class Deployed:
    base_url: str
    pid: int
    changed: int  # commands applied
    answer: smoke.Answer | None  # None: the box computes for another one


def needs_nothing(plan: Plan) -> bool:
    """Everything is as it should be, and the service is ready."""
    return not plan.commands and plan.seen.health.ready


def deploy(site: Site, plan: Plan, voice: Voice, *, put_back: bool = True) -> Deployed:
    """Raises; then what was deployed before runs again, and what was fetched stays.

    Without `put_back` the box is left as it failed.
    """
    wish = site.box.deployment
    with recorded(site, "deploy", plan.commands, voice) as do:
        try:
            packages.install(site, plan.packages, do, voice)
            for command in plan.commands[len(plan.packages) :]:
                do(command)
            seen = gate.wait(site, wish, voice)
            answer = smoke.ask(site, wish)
            prove(site, wish, plan)
        except DdopsError as verdict:
            if not put_back:
                raise
            raise back(site, plan.seen.service, verdict, voice) from None
        assert seen.pid is not None, "a service that passed its gate has a process"
    url = base_url(wish.serving)
    return Deployed(base_url=url, pid=seen.pid, changed=len(plan.commands), answer=answer)
