"""What ddops did to a box: one line of JSON for every event, on the box itself."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word

Outcome = Literal["begun", "step", "done", "failed", "interrupted"]


class Event(Word):
    at: str  # UTC, ISO 8601
    action: str  # the same for all events of one run of ddops
    verb: str
    who: str  # the user of the machine that ran ddops
    machine: str
    plan: str  # a digest of the lines of its plan: two actions with one plan have the same
    steps: int  # of the plan
    done: int  # of these, so far
    outcome: Outcome
    line: str  # the step that was done, or, where it did not end well, why


class Action(Word):
    """The events of one run of ddops."""

    first: Event
    last: Event
    steps: tuple[str, ...]  # those that were done

    @property
    def outcome(self) -> Outcome:
        """`begun`: it has not ended yet, or nobody could write that it did."""
        return "begun" if self.last.outcome == "step" else self.last.outcome


def parse(text: str) -> list[Action]:
    """Oldest first. What is no event (a line cut short by a full disk) counts as nothing."""
    by_action: dict[str, list[Event]] = {}
    for line in text.splitlines():
        event = _event(line)
        if event:
            by_action.setdefault(event.action, []).append(event)
    return [_action(events) for events in by_action.values()]


def _action(events: list[Event]) -> Action:
    steps = tuple(event.line for event in events if event.outcome == "step")
    return Action(first=events[0], last=events[-1], steps=steps)


def _event(line: str) -> Event | None:
    try:
        return Event.model_validate_json(line)
    except ValueError:
        return None
