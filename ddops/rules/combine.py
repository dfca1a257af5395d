"""One command line from three sources: the wish's own keys, the rules, and `flags`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ddops.errors import SpecError
from ddops.rules.weigh import Advice, Broken
from ddops.spec.argument import Argument
from ddops.spec.deployment import Deployment


def combine(
    own: Sequence[Argument], advice: Advice, deployment: Deployment
) -> tuple[tuple[Argument, ...], tuple[Broken, ...]]:
    """The arguments in that order, and the rules that `flags` contradict.

    Raises `SpecError` for a flag that an inventory key of its own sets.
    """
    by_key = {one.flag for one in own}
    by_rule = {one.flag: one for one in advice.arguments}
    asked: list[Argument] = []
    broken: list[Broken] = []
    for flag, value in deployment.flags.items():
        if flag in by_key:
            raise SpecError(
                f"`flags` sets {flag}, which another key of the inventory sets",
                hint="remove it from `flags` and set that key; `ddops explain` shows which",
            )
        wished = Argument(flag=flag, value="" if value is None else str(value), why="as asked")
        said = by_rule.get(flag)
        if said is None:
            asked.append(wished)
        elif said.value != wished.value:
            broken.append(_contradicted(wished, said))
    return (*own, *advice.arguments, *asked), tuple(broken)


def _contradicted(wished: Argument, said: Argument) -> Broken:
    return Broken(
        why=f"`flags` asks for {_shown(wished)}, the rule for {_shown(said)}: {said.why}",
        instead=f"remove {wished.flag} from `flags`",
        source=said.source,
        sure=said.sure,
        rule=said.rule,
    )


def _shown(one: Argument) -> str:
    return f"{one.flag} {one.value}".rstrip()
