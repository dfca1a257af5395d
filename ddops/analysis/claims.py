"""What a run shows, in sentences that carry their number and the records it comes from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddops.analysis.repeats import MISSING, Group


@dataclass(frozen=True)
class Claim:
    text: str
    records: tuple[str, ...]  # cell ids


def claims(groups: Sequence[Group]) -> tuple[Claim, ...]:
    """The fastest variant per pace where there are two, then what of the requests an open loop or
    an SLO asks for was answered, what was slower than `ar`, failed or is missing.
    """
    ladder = dict.fromkeys(group.pace for group in groups)
    rungs = [[g for g in groups if g.pace == pace] for pace in ladder]
    made = [_fastest(rung) for rung in rungs]
    made += [_answered(group) for group in groups]
    made += [_slower(group) for group in groups]
    made += [_not_good(group) for group in groups]
    made += _missing(groups)
    return tuple(claim for claim in made if claim is not None)


def _fastest(rung: Sequence[Group]) -> Claim | None:
    measured = [group for group in rung if group.median is not None]
    if not measured:
        return None
    best = max(measured, key=_speed)
    if len(measured) == 1:
        said = f"{best.pace}: {best.variant.name} alone was measured, {_speed(best):.1f} tok/s"
        return Claim(said, _ids(best))
    said = f"{best.pace}: {best.variant.name} is fastest, {_speed(best):.1f} tok/s"
    if best.speedup is not None:
        ratio = f"{best.speedup.value:.2f}x of ar{_by_repeat(best)}"
        return Claim(f"{said}, {ratio}", (best.speedup.of, best.speedup.base))
    why = "autoregressive decoding itself" if best.variant.mode == "ar" else "no `ar` beside it"
    return Claim(f"{said} ({why})", _ids(best))


def _answered(group: Group) -> Claim | None:
    """Where requests come whether or not they are answered, or an SLO counts the good ones."""
    found = group.median.metrics if group.median else None
    if found is None or found.requests_s is None:
        return None
    if group.pace.arrivals == "closed" and found.goodput_s is None:
        return None
    text = f"{group.pace}: {group.variant.name} answers {found.requests_s:.2f} requests a second"
    if found.goodput_s is not None:
        text += f", {found.goodput_s:.2f} of them within the SLO"
    return Claim(text, _ids(group))


def _slower(group: Group) -> Claim | None:
    if group.speedup is None or group.speedup.value >= 1:
        return None
    text = (
        f"{group.pace}: {group.variant.name} is slower than ar, "
        f"{group.speedup.value:.2f}x{_by_repeat(group)}"
    )
    return Claim(text, (group.speedup.of, group.speedup.base))


def _by_repeat(group: Group) -> str:
    """How far the repeats are apart, and whether they even agree on the direction."""
    values = [each.value for each in group.by_repeat]
    if len(values) < 2:
        return ""
    told = f"{min(values):.2f}x to {max(values):.2f}x by repeat"
    return f" ({told})" if group.agreed else f" (not settled: {told})"


def _not_good(group: Group) -> Claim | None:
    if group.verdict in ("ok", MISSING):
        return None
    text = f"{group.pace}: {group.variant.name} {group.verdict}"
    return Claim(text, tuple(record.cell.id for record in group.records if not record.ok))


def _missing(groups: Sequence[Group]) -> list[Claim | None]:
    paces: dict[str, list[str]] = {}
    for group in groups:
        if group.verdict == MISSING:
            paces.setdefault(group.variant.name, []).append(str(group.pace))
    return [Claim(f"{name} {MISSING} at {', '.join(own)}", ()) for name, own in paces.items()]


def _speed(group: Group) -> float:
    median = group.median
    return median.metrics.output_tok_s if median and median.metrics else 0.0


def _ids(group: Group) -> tuple[str, ...]:
    return (group.median.cell.id,) if group.median else ()
