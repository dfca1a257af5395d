"""What to try next, and what the tries have shown. Pure: decided from the tries so far alone.

The order is the field record's: a baseline, a foothold, the wall by bisection, the cause of each
failure by changing one thing, then the other axes and the neighbours of the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ddops.spec.matrix import Variant
from ddops.spec.search import Axes, Axis, Findings, Tried, Wall

_AXES: tuple[Axis, ...] = ("graphs", "nvls", "parallel")
_Seen = Mapping[Variant, Tried]


def every(axes: Axes) -> tuple[Variant, ...]:
    """All that could be tried, the baseline first."""
    start = _start(axes)
    settings = [
        {"graphs": graphs, "nvls": nvls, "parallel": parallel}
        for graphs in axes.graphs
        for nvls in axes.nvls
        for parallel in axes.parallel
    ]
    trees = [_tree(setting, budget) for setting in settings for budget in axes.budgets]
    return (_autoregressive(start), *trees)


def next_variant(axes: Axes, tried: Sequence[Tried]) -> Variant | None:
    """None when nothing is left to learn."""
    seen = {one.variant: one for one in tried}
    stages: tuple[Callable[[Axes, _Seen], Variant | None], ...] = (
        _baseline,
        _foothold,
        _bisection,
        _cause,
        _other_axes,
        _neighbour,
    )
    return next((wanted for stage in stages if (wanted := stage(axes, seen))), None)


def findings(axes: Axes, tried: Sequence[Tried]) -> Findings:
    seen = {one.variant: one for one in tried}
    return Findings(
        baseline=seen.get(_autoregressive(_start(axes))),
        best=_best(seen),
        walls=tuple(_walls(axes, seen)),
        failed=tuple(one for one in tried if not one.ok),
    )


def _baseline(axes: Axes, seen: _Seen) -> Variant | None:
    wanted = _autoregressive(_start(axes))
    return None if wanted in seen else wanted


def _foothold(axes: Axes, seen: _Seen) -> Variant | None:
    """The smallest budget must work somewhere: as asked, else with one thing changed."""
    for setting in (_start(axes), *_changed(axes, _start(axes))):
        wanted = _tree(setting, axes.budgets[0])
        if wanted not in seen:
            return wanted
        if seen[wanted].ok:
            return None
    return None


def _bisection(axes: Axes, seen: _Seen) -> Variant | None:
    """The largest budget, then the middle of what works and what fails.

    Where two neighbouring failures are of different kinds there is a second wall between them.
    """
    base = _base(axes, seen)
    if base is None:
        return None
    ladder = [_tree(base, budget) for budget in axes.budgets]
    if ladder[-1] not in seen:
        return ladder[-1]
    known = [i for i, variant in enumerate(ladder) if variant in seen]
    for low, high in pairwise(known):
        differ = seen[ladder[low]].failure != seen[ladder[high]].failure
        if differ and high - low > 1:
            return ladder[(low + high) // 2]
    return None


def _cause(axes: Axes, seen: _Seen) -> Variant | None:
    """Each failure once more with one thing changed, until a change is found that helps."""
    base = _base(axes, seen)
    for one in [one for one in seen.values() if not one.ok]:
        if base is None or one.variant != _tree(base, _budget(one.variant)):
            continue
        changed = [_tree(other, _budget(one.variant)) for other in _changed(axes, base)]
        if any(other in seen and seen[other].ok for other in changed):
            continue
        wanted = next((other for other in changed if other not in seen), None)
        if wanted:
            return wanted
    return None


def _other_axes(axes: Axes, seen: _Seen) -> Variant | None:
    """The best with NVLS and parallelism changed. Graphs are seen to where something failed."""
    best = _best(seen)
    if best is None:
        return None
    for axis in ("nvls", "parallel"):
        for value in getattr(axes, axis):
            wanted = _tree({**_setting(best.variant), axis: value}, _budget(best.variant))
            if wanted not in seen:
                return wanted
    return None


def _neighbour(axes: Axes, seen: _Seen) -> Variant | None:
    """A budget beside the best, unless the same failed already with the same graphs."""
    best = _best(seen)
    if best is None:
        return None
    setting, place = _setting(best.variant), axes.budgets.index(_budget(best.variant))
    for beside in (place - 1, place + 1):
        if not 0 <= beside < len(axes.budgets):
            continue
        wanted = _tree(setting, axes.budgets[beside])
        if wanted not in seen and not _hopeless(wanted, seen):
            return wanted
    return None


def _hopeless(wanted: Variant, seen: _Seen) -> bool:
    """NVLS and parallelism change speed; what made a budget fail does not go away with them."""
    return any(
        not one.ok and (one.variant.budget, one.variant.graphs) == (wanted.budget, wanted.graphs)
        for one in seen.values()
    )


def _walls(axes: Axes, seen: _Seen) -> Iterator[Wall]:
    settings = {tuple(_setting(v).items()): _setting(v) for v in seen if v.mode == "ddtree"}
    for setting in settings.values():
        ladder = [seen[v] for b in axes.budgets if (v := _tree(setting, b)) in seen]
        for low, high in pairwise(ladder):
            if low.ok and high.failure:
                cause = _helped(axes, seen, high.variant)
                yield Wall(works=low.variant, fails=high.variant, failure=high.failure, cause=cause)


def _helped(axes: Axes, seen: _Seen, failed: Variant) -> Axis | None:
    for axis in _AXES:
        for value in getattr(axes, axis):
            other = _tree({**_setting(failed), axis: value}, _budget(failed))
            if other in seen and seen[other].ok:
                return axis
    return None


def _base(axes: Axes, seen: _Seen) -> dict[str, Any] | None:
    """The setting in which the smallest budget works."""
    settings = (_start(axes), *_changed(axes, _start(axes)))
    smallest = ((setting, seen.get(_tree(setting, axes.budgets[0]))) for setting in settings)
    return next((setting for setting, one in smallest if one and one.ok), None)


def _best(seen: _Seen) -> Tried | None:
    """The fastest draft tree that works."""
    good = [one for one in seen.values() if one.ok and one.variant.mode == "ddtree"]
    return max(good, key=lambda one: one.tok_s or 0.0, default=None)


def _start(axes: Axes) -> dict[str, Any]:
    return {axis: getattr(axes, axis)[0] for axis in _AXES}


def _changed(axes: Axes, setting: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`setting` with one axis changed, towards what asks less of a box."""
    return [
        {**setting, axis: value}
        for axis in _AXES
        for value in getattr(axes, axis)
        if value != setting[axis] and value != "on"
    ]


def _setting(variant: Variant) -> dict[str, Any]:
    return {axis: getattr(variant, axis) for axis in _AXES}


def _budget(variant: Variant) -> int:
    assert variant.budget is not None, "a draft tree has a budget"
    return variant.budget


def _autoregressive(setting: Mapping[str, Any]) -> Variant:
    return Variant(name="ar", mode="ar", **setting)


def _tree(setting: Mapping[str, Any], budget: int) -> Variant:
    tree = Variant(name="ddtree", mode="ddtree", budget=budget, **setting)
    return tree.model_copy(update={"name": tree.described})
