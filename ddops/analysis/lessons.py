"""What a run teaches of its method, and what it asks for next, in sentences of its numbers. Pure.

Each holds by a threshold that stands here. A sentence names the records its numbers come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from ddops.analysis.chosen import chosen
from ddops.analysis.claims import Claim
from ddops.analysis.cost.breakdown import Apart, Breakdown
from ddops.analysis.repeats import Group, step_s
from ddops.analysis.steady import Steadiness
from ddops.spec.matrix import Matrix
from ddops.spec.record import Metrics, Record

DEEP: Final = 0.05
"""Of verify steps: where so many accept the deepest draft, a deeper drafter would commit more."""
RARE: Final = 0.01
"""Of an adaptive engine's steps: budgets that had fewer were only tried."""
FIXED: Final = 0.5
"""Of a step: where so much is there whatever the tree, time per launch is worth more than nodes."""


def method(groups: Sequence[Group]) -> tuple[Claim, ...]:
    """How drafts and trees behaved at the lowest pace that was measured, and budgets at all."""
    lowest = _lowest(groups)
    best = max(lowest, key=_accept, default=None)
    if best is None or _accept(best) <= 1:
        return ()
    return (*_committed(best), *_deepest(best), *_budgets(lowest), *_chosen(groups))


def roadmap(
    matrix: Matrix, groups: Sequence[Group], apart: Breakdown | None, looked: Steadiness | None
) -> tuple[Claim, ...]:
    """What to do next; the largest lever first, what would make the numbers surer last."""
    return (
        *_where_it_does_not_pay(groups),
        *_overhead(apart),
        *_deeper(_lowest(groups)),
        *_wider(_lowest(groups)),
        *_repairs(groups),
        *_surer(matrix, groups, looked),
    )


def _committed(best: Group) -> Iterator[Claim]:
    metrics = _metrics(best)
    text = (
        f"{best.pace}: {best.variant.name} commits {metrics.accept:.2f} tokens a target step, the "
        "most of all variants"
    )
    yield Claim(text, _ids(best))


def _deepest(best: Group) -> Iterator[Claim]:
    shares = _metrics(best).accepted_per_position
    if shares:
        text = (
            f"of its steps {shares[0]:.0%} accept the first draft, {shares[len(shares) // 2]:.1%} "
            f"come to draft {len(shares) // 2 + 1} and {shares[-1]:.1%} to draft {len(shares)}"
        )
        yield Claim(text, _ids(best))


def _budgets(lowest: Sequence[Group]) -> Iterator[Claim]:
    for small, large in _neighbours(lowest):
        more = _accept(large) / _accept(small) - 1
        dearer = _step(large) / _step(small) - 1
        verdict = "which pays" if more > dearer else "which does not pay"
        text = (
            f"{large.pace}: from budget {small.variant.budget} to {large.variant.budget} accept "
            f"grows by {more:.0%} and a step by {dearer:.0%}, {verdict}"
        )
        yield Claim(text, (*_ids(large), *_ids(small)))


def _chosen(groups: Sequence[Group]) -> Iterator[Claim]:
    """What adaptive engines verified: a budget to ask for where one has nearly all steps."""
    for group in groups:
        steps = chosen(group.median) if group.median and group.variant.adaptive else {}
        shares = [(budget, count / sum(steps.values())) for budget, count in steps.items()]
        told = [f"{share:.0%} budget {budget}" for budget, share in shares if share >= RARE]
        if told:
            text = f"{group.pace}: of the steps of {group.variant.name} had {', '.join(told)}"
            yield Claim(text, _ids(group))


def _where_it_does_not_pay(groups: Sequence[Group]) -> Iterator[Claim]:
    for pace in dict.fromkeys(group.pace for group in groups):
        rung = [g for g in groups if g.pace == pace and g.speedup and g.variant.mode != "ar"]
        best = max(
            rung, key=lambda group: group.speedup.value if group.speedup else 0, default=None
        )
        if best is not None and best.speedup is not None and best.speedup.value < 1:
            text = (
                f"serve {pace} without drafts, or make them cheaper: the best variant there, "
                f"{best.variant.name}, is {best.speedup.value:.2f}x of ar"
            )
            yield Claim(text, (best.speedup.of, best.speedup.base))


def _overhead(apart: Breakdown | None) -> Iterator[Claim]:
    shortest = min(apart.steps, key=lambda one: one.measured_s, default=None) if apart else None
    if shortest is None:
        return
    fixed = shortest.parts.get("a step", 0.0) / shortest.measured_s
    if fixed >= FIXED:
        text = (
            f"make the step itself cheaper: of the {1e3 * shortest.measured_s:.2f} ms of "
            f"{shortest.cell}, {fixed:.0%} are there whatever is verified{_beside_bytes(shortest)}"
        )
        yield Claim(text, (shortest.cell,))


def _beside_bytes(one: Apart) -> str:
    share = one.parts.get("bytes", 0.0) / one.measured_s
    return f"; its bytes at peak bandwidth take {share:.0%}" if share else ""


def _deeper(lowest: Sequence[Group]) -> Iterator[Claim]:
    best = max(lowest, key=_accept, default=None)
    shares = _metrics(best).accepted_per_position if best else None
    if best is None or not shares:
        return
    name, depth, last = best.variant.name, len(shares), shares[-1]
    if last >= DEEP:
        text = f"draft deeper than {depth}: {last:.0%} of the steps of {name} come so far"
    else:
        text = (
            f"better drafts before deeper ones: only {last:.1%} of the steps of {name} come to "
            f"draft {depth}"
        )
    yield Claim(text, _ids(best))


def _wider(lowest: Sequence[Group]) -> Iterator[Claim]:
    """Of the two largest budgets alone: what a larger one than measured would do is a guess."""
    pairs = list(_neighbours(lowest))
    if not pairs:
        return
    small, large = pairs[-1]
    more, dearer = _accept(large) / _accept(small), _step(large) / _step(small)
    ids = (*_ids(large), *_ids(small))
    if more > dearer:
        yield Claim(f"measure budgets above {large.variant.budget}: the last step up paid", ids)
    else:
        text = (
            f"no budget above {small.variant.budget} at {large.pace}: the last step up did not pay"
        )
        yield Claim(text, ids)


def _repairs(groups: Sequence[Group]) -> Iterator[Claim]:
    for group in groups:
        bad = [record for record in group.records if not record.ok]
        if bad:
            text = f"find out why {group.variant.name} at {group.pace} {group.verdict}"
            yield Claim(text, tuple(record.cell.id for record in bad))


def _surer(matrix: Matrix, groups: Sequence[Group], looked: Steadiness | None) -> Iterator[Claim]:
    good = [group.median for group in groups if group.median]
    if matrix.repeats < 3:
        few = "one repeat tells" if matrix.repeats == 1 else f"{matrix.repeats} repeats tell"
        yield Claim(f"measure three repeats: {few} no spread", ())
    if looked is None:
        yield Claim("measure the first cell again at the end (`again: true`)", ())
    elif not looked.steady:
        yield Claim(f"measure on a quieter box: {looked.text}", (looked.first.cell.id,))
    if good and not any(record.telemetry for record in good):
        yield Claim("sample power and use beside the cells: what limits them is half known", ())
    if rounded := [record for record in good if _rounded(record)]:
        text = "prove losslessness in float32: in this dtype equal answers cannot be asked for"
        yield Claim(text, (rounded[0].cell.id,))


def _rounded(record: Record) -> bool:
    return any(gate.name == "lossless" and "rounding" in gate.detail for gate in record.gates)


def _neighbours(lowest: Sequence[Group]) -> Iterator[tuple[Group, Group]]:
    """Fixed budgets next to each other, smaller first."""
    trees = [
        group
        for group in lowest
        if group.variant.mode == "ddtree" and group.variant.budget and not group.variant.adaptive
    ]
    trees.sort(key=lambda group: group.variant.budget or 0)
    return ((small, large) for small, large in pairwise(trees) if _step(small) and _step(large))


def _lowest(groups: Sequence[Group]) -> list[Group]:
    """Good groups at the lowest closed loop."""
    good = [g for g in groups if g.pace.arrivals == "closed" and g.median and g.median.metrics]
    least = min((group.concurrency for group in good), default=0)
    return [group for group in good if group.concurrency == least]


def _accept(group: Group) -> float:
    return _metrics(group).accept or 1.0


def _step(group: Group) -> float:
    return step_s(_metrics(group)) or 0.0


def _metrics(group: Group) -> Metrics:
    assert group.median is not None and group.median.metrics is not None, "only good groups"
    return group.median.metrics


def _ids(group: Group) -> tuple[str, ...]:
    assert group.median is not None, "only good groups"
    return (group.median.cell.id,)
