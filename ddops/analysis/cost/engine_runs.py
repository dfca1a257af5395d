"""Measured steps of the engine alone, out of what its bench of modes wrote on an H200. Pure.

A step of one stream takes accept / tok/s while it decodes: no HTTP, no prefill, no other request.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean

from ddops.analysis.cost.catalogue import recognised
from ddops.analysis.cost.fit import Step, Timed
from ddops.analysis.cost.observe import Observed
from ddops.spec.cost import EngineRun, EngineRuns

_NAMED = re.compile(r"c1 (?P<mode>ar|chain|ddtree)(?P<budget>\d+)(?P<adaptive>a?) #\d+")


def of_engine_runs(document: EngineRuns) -> Observed:
    """One step a mode, the mean over its repeats; runs of several streams are left out."""
    repeats: dict[tuple[str, int], list[EngineRun]] = defaultdict(list)
    left_out: list[str] = []
    for run in document.runs:
        named = _NAMED.fullmatch(run.name)
        if named and not named["adaptive"]:
            repeats[named["mode"], int(named["budget"])].append(run)
        else:
            why = "adaptive: its nodes change" if named else "not one stream through graphs"
            left_out.append(f"{run.name}: {why}")
    return Observed(
        timed=tuple(_timed(*of, runs) for of, runs in repeats.items()),
        concurrency=(1,) * len(repeats),
        left_out=tuple(left_out),
        on=recognised(document.device),
        accept=_accepts(repeats),
        source=f"the engine alone on {document.device}",
    )


def _timed(mode: str, budget: int, runs: list[EngineRun]) -> Timed:
    step = Step(
        name=f"{mode}{budget or ''}", drafts=mode != "ar", requests=1.0, nodes=float(budget + 1)
    )
    return Timed(step, fmean((run.accept or 1.0) / run.decode_tok_s_each for run in runs))


def _accepts(repeats: Mapping[tuple[str, int], list[EngineRun]]) -> dict[int, float]:
    """Of trees, by budget."""
    told = {budget: runs[0].accept for (mode, budget), runs in repeats.items() if mode == "ddtree"}
    return {budget: accept for budget, accept in told.items() if accept is not None}
