"""Install packages: wait for whoever holds apt's lock, and name them when they do not let go."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ddops.errors import StepError
from ddops.facts import apt
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.spec.command import Command
from ddops.spec.observed import Holder
from ddops.steps import packages

_POLL_S = 1.0


def install(
    site: Site, commands: Sequence[Command], do: Callable[[Command], None], voice: Voice
) -> None:
    """Raises `PackagesError`. apt-get itself waits for dpkg's lock, not for that of its lists."""
    for command in commands:
        wait(site, voice)
        began = time.monotonic()
        try:
            do(command)
        except StepError as error:
            holder = holder_now(site)
            if holder:
                raise packages.held(holder, time.monotonic() - began) from None
            raise packages.refused(error.detail or "") or error from None


def wait(site: Site, voice: Voice) -> None:
    began, told = time.monotonic(), None
    while (holder := holder_now(site)) is not None:
        waited = time.monotonic() - began
        if waited > packages.LOCK_WAIT_S:
            raise packages.held(holder, waited)
        if holder.pid != told:
            told = holder.pid
            voice.say(f"  apt is in use by process {holder.pid} ({holder.program}): waiting")
        time.sleep(_POLL_S)


def holder_now(site: Site) -> Holder | None:
    return apt.parse_holder(site.host.run(apt.HOLDER).stdout)
