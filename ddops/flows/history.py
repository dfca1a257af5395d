"""What ddops did to a box, written down there while it is done, and read back."""

from __future__ import annotations

import hashlib
import platform
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from ddops.bundle.redact import Known, redact
from ddops.errors import DdopsError, HostError, StepError
from ddops.facts.look import api_key
from ddops.flows.perform import perform, title
from ddops.flows.site import Site
from ddops.flows.user import login, secrets_of_environment
from ddops.flows.voice import Voice
from ddops.spec.command import Command, Run
from ddops.spec.history import Action, Event, Outcome, parse

Do = Callable[[Command], None]

# One older file of the same size is kept. A line that a full disk cut short spoils no other.
_APPEND = """
umask 077
mkdir -p -- "$(dirname -- "$1")" || exit
[ "$(stat -c %s -- "$1" 2>/dev/null || echo 0)" -lt 1000000 ] || mv -f -- "$1" "$1.1"
[ ! -s "$1" ] || [ -z "$(tail -c 1 -- "$1")" ] || echo >> "$1"
cat >> "$1"
"""


def actions(site: Site) -> list[Action]:
    """Oldest first."""
    return parse((site.host.read(site.place.history) or b"").decode("utf-8", "replace"))


def unfinished(site: Site) -> str | None:
    """Where the last action stopped, in words, if it was a deploy that did not end well."""
    last = next(reversed(actions(site)), None)
    if last is None or last.first.verb != "deploy" or last.outcome == "done":
        return None
    how = {"failed": "failed", "interrupted": "was interrupted"}.get(last.outcome, "was cut short")
    done, steps = last.last.done, last.first.steps
    where = f"at step {done + 1} of {steps}" if done < steps else "while waiting for the service"
    return f"the deploy of {last.first.at} ({last.first.who} on {last.first.machine}) {how} {where}"


@contextmanager
def recorded(site: Site, verb: str, commands: Sequence[Command], voice: Voice) -> Iterator[Do]:
    """Yields what performs a command and writes it down. However it ends, that is written too.

    Raises `StepError` before anything is done when the box cannot take a line: its disk is full.
    """
    record = _Record(site, verb, commands)
    record.write("begun")

    def do(command: Command) -> None:
        perform(site, command, voice)
        record.done += 1
        record.write("step", title(command))

    try:
        yield do
    except BaseException as error:
        _end(record, error, voice)
        raise
    _end(record, None, voice)


@dataclass
class _Record:
    site: Site
    verb: str
    commands: Sequence[Command]
    done: int = 0

    def __post_init__(self) -> None:
        self.action = secrets.token_hex(4)
        self.private = Known(secrets=_secrets(self.site))

    def write(self, outcome: Outcome, line: str = "") -> None:
        event = Event(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            action=self.action,
            verb=self.verb,
            who=login(),
            machine=platform.node(),
            plan=_digest(self.commands),
            steps=len(self.commands),
            done=self.done,
            outcome=outcome,
            line=redact(line, self.private).text,
        )
        path = self.site.place.history
        text = f"{event.model_dump_json()}\n"
        argv = ("sh", "-c", _APPEND, "sh", path)
        said = self.site.host.run(Run(argv=argv, why="what ddops did", stdin=text))
        if not said.ok:
            reason = (said.stderr.strip().splitlines() or [f"exit code {said.code}"])[-1]
            raise StepError(
                f"{path} on box `{self.site.box.name}` cannot be written: {reason}",
                hint="free some space there" if "No space" in reason else None,
            )


def _secrets(site: Site) -> tuple[str, ...]:
    found = secrets_of_environment()
    with suppress(HostError):  # a missing key is no reason not to stop a service
        key = api_key(site.host, site.box.deployment.serving)
        found += [key] if key else []
    return tuple(found)


def _end(record: _Record, error: BaseException | None, voice: Voice) -> None:
    outcome: Outcome = "done" if error is None else "failed"
    line = ""
    if isinstance(error, DdopsError):
        line = error.subject
    elif isinstance(error, KeyboardInterrupt):
        outcome = "interrupted"
    elif error is not None:
        line = type(error).__name__
    try:
        record.write(outcome, line)
    except DdopsError as unwritten:
        voice.warn(f"the history of the box lacks how this ended: {unwritten.subject}")


def _digest(commands: Sequence[Command]) -> str:
    lines = "\n".join(command.line for command in commands)
    return hashlib.sha256(lines.encode()).hexdigest()[:12]
