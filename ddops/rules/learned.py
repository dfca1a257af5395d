"""A wall that a search has found, as a rule: it speaks only where the same thing was measured."""

from __future__ import annotations

from ddops.spec.rule import Rule
from ddops.spec.search import Wall
from ddops.spec.situation import Situation

_ADVICE = {
    "graphs": "or `graphs: off`",
    "nvls": "or `nvls: off`",
    "parallel": "or the other `parallel`",
}
_CHANGED = {"graphs": "graphs off", "nvls": "NVLS off", "parallel": "the other parallelism"}


def learned(wall: Wall, seen: Situation, box: str, evidence: str) -> Rule:
    """`evidence` names the records. Engine, version and GPU are those of the search."""
    works, fails = wall.works.budget, wall.fails.budget
    where = {
        "engine": seen.engine,
        "version": seen.version,
        "capability": seen.capability,
        "attention": seen.attention,
    }
    conditions = [f"{name} == {value!r}" for name, value in where.items() if value is not None]
    if wall.cause == "graphs":
        conditions.append("graphs")
    other = f", {_ADVICE[wall.cause]}" if wall.cause else ""
    with_it = f"; it works with {_CHANGED[wall.cause]}" if wall.cause else ""
    return Rule(
        name=f"learned-{box}-{wall.fails.name}",
        when=" and ".join(["tree", *conditions]),
        require=f"budget <= {works}",
        instead=f"set `budget: {works}`{other}",
        why=f"budget {works} works, {fails} ends in {wall.failure}{with_it}",
        source=f"ddops search, {evidence}",
        sure="measured",
    )
