"""Several boxes by one name. Each box says which groups it is in, so there is no list to keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ddops.errors import SpecError
from ddops.spec.box import Box
from ddops.spec.load import boxes, is_path, load_box, no_box


def expand(names: Sequence[str], *, folder: Path | None = None) -> tuple[str, ...]:
    """The boxes that are meant, each once, in the order given; a group stands for its boxes.

    Raises `UsageError` for a name that is neither. Inventories are read only to find a group.
    """
    folder = folder or Path.cwd()
    known = boxes(folder)
    found: list[str] = []
    for name in names:
        if is_path(name) or name in known:
            found.append(name)
        else:
            found += _members(name, known, folder)
    return tuple(dict.fromkeys(found))


def together(boxes: Sequence[Box]) -> tuple[frozenset[str], ...]:
    """The names of those that stand or fall together: the ranks of an engine, and the replicas of
    a router with it. Only what is among `boxes`; a box that is alone is in none."""
    names = {box.name for box in boxes}
    sets = list(_ranks(boxes))
    sets += [
        {box.name, *box.deployment.router.replicas} & names
        for box in boxes
        if box.deployment.router
    ]
    joined: list[set[str]] = []
    for one in sets:
        touching = [other for other in joined if other & one]
        joined = [other for other in joined if not other & one]
        joined.append(set(one).union(*touching))
    return tuple(frozenset(one) for one in joined if len(one) > 1)


def _ranks(boxes: Sequence[Box]) -> Iterator[set[str]]:
    nodes = [(box.name, box.deployment.node.leader) for box in boxes if box.deployment.node]
    for leader in dict.fromkeys(leader for _, leader in nodes):
        yield {name for name, meets in nodes if meets == leader}


def _members(name: str, known: dict[str, Path], folder: Path) -> tuple[str, ...]:
    groups: dict[str, list[str]] = {}
    for box in known:
        for group in load_box(box, folder=folder).groups:
            if group in known:
                raise SpecError(
                    f"{known[box]}: group `{group}` has the name of a box",
                    hint="give the group another name",
                )
            groups.setdefault(group, []).append(box)
    if name not in groups:
        raise no_box(name, known, groups)
    return tuple(groups[name])
