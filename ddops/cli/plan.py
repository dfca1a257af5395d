"""`ddops plan`, and how a plan looks wherever one is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ddops.cli.env import shown_first
from ddops.cli.options import BoxNames, Json, Override, Quiet, Verbose
from ddops.cli.output import Output, table
from ddops.cli.several import each, one, several, show

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.flows.plan import Plan
    from ddops.spec.command import Command
    from ddops.spec.place import Place
    from ddops.spec.situation import Situation


def plan(
    boxes: BoxNames = None,
    override: Override = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say what `ddops deploy` would do to a box, and why. Changes nothing.

    \b
    Example:
      ddops plan local
      ddops plan b300-a b300-b
    """
    from ddops.flows.plan import plan as make
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    if names := several(boxes):
        show(out, each("plan", names, overriding(override), out), line)
    with opened(one(boxes), overrides=override) as site:
        if not shown_first(site, out):
            planned = make(site)
            out.result(as_data(planned), draw(planned, site.place, arguments=True))


def line(planned: Mapping[str, Any]) -> str:
    """A plan in a few words, for a table of several boxes."""
    if not planned["commands"]:
        return "nothing to change"
    return f"{len(planned['commands'])} changes, {planned['bytes'] / 1e6:.1f} MB to fetch"


def overriding(rules: Sequence[str] | None) -> list[str]:
    """The same rules for every box."""
    return [word for rule in rules or () for word in ("--override", rule)]


def as_data(planned: Plan) -> dict[str, Any]:
    from ddops.spec.command import told

    return {
        "commands": [told(command) for command in planned.commands],
        "bytes": planned.bytes,
        "takes_s": planned.takes_s,
        "unit": planned.rendered.unit,
        "unit_sha256": planned.rendered.unit_sha256,
        "memory": memory_data(planned.rendered.advised.situation),
        "arguments": [argument.model_dump() for argument in planned.rendered.advised.arguments],
        "overridden": [one.model_dump() for one in planned.rendered.advised.advice.overridden],
        "notes": [one.model_dump() for one in planned.rendered.advised.advice.notes],
    }


def draw(planned: Plan, place: Place, *, arguments: bool, unit: bool = False) -> RenderableType:
    from rich.console import Group

    parts: list[RenderableType] = [draw_commands(planned.commands, place)]
    if arguments:
        given = planned.rendered.advised.arguments
        rows = [(f"{a.flag} {_short(a.value, place)}".strip(), a.why) for a in given]
        parts += ["", table(("engine argument", "why"), rows)]
        parts += draw_memory(planned.rendered.advised.situation)
    advice = planned.rendered.advised.advice
    notes = [f"overridden: rule `{one.rule}`: {one.why}" for one in advice.overridden]
    notes += [f"note: {one.why}" for one in advice.notes]
    parts += ["", *notes] if notes else []
    return Group(*parts, *(["", "unit:", planned.rendered.unit.rstrip()] if unit else []))


def memory_data(situation: Situation) -> dict[str, float | int | None]:
    """GiB of one GPU."""
    names = ("memory", "weights", "of_drafter", "cache", "cache_tokens", "reserve", "fits_tokens")
    return {"gpus": situation.use, **{name: getattr(situation, name) for name in names}}


def draw_memory(situation: Situation) -> list[RenderableType]:
    from ddops.rules.memory import lines

    rows = [(what, f"{gib:.1f}", why) for what, gib, why in lines(situation)]
    columns = (f"each of {situation.use} x {situation.gpu}", "GiB", "reckoned from")
    return ["", table(columns, rows, right=("GiB",))] if rows else []


def show_commands(out: Output, commands: Sequence[Command], place: Place) -> None:
    """What a dry run prints: the commands, and nothing is done."""
    out.result([command.line for command in commands], draw_commands(commands, place))


def in_words(commands: Sequence[str]) -> str:
    """What a dry run printed, for a table of several boxes."""
    return "; ".join(commands) or "nothing to change"


def draw_commands(commands: Sequence[Command], place: Place) -> RenderableType:
    """Paths below the state folder are shown without it; `--json` has them in full."""
    from rich.console import Group

    if not commands:
        return "nothing to change"
    lines = [(_short(one.line, place), one.why, _size(one), _time(one)) for one in commands]
    rows = [(str(number), *line) for number, line in enumerate(lines, 1)]
    columns, numbers = ("", "what", "why", "MB", "s"), ("", "MB", "s")
    return Group(f"below {place.root}:", table(columns, rows, right=numbers))


def _short(line: str, place: Place) -> str:
    return line.replace(f"{place.root}/", "").replace(place.python, "python")


def _size(command: Command) -> str:
    size = getattr(command, "size", None)
    return f"{size / 1e6:.1f}" if size else ""


def _time(command: Command) -> str:
    takes_s = getattr(command, "takes_s", None)
    return f"~{takes_s:.0f}" if takes_s and takes_s >= 1 else ""
