"""Does what a record tells of its box follow from the samples beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ddops.analysis.telemetry import Expected, telemetry, use
from ddops.bundle.agree import apart
from ddops.bundle.bag import Finding
from ddops.spec.record import Record
from ddops.spec.run import Run

_NAME: Final = re.compile(r"telemetry/[\w.-]+\.jsonl", re.ASCII)
_MOST_READ: Final = 32 << 20
"""Bytes, an hour of 16 GPUs; as words they take ten times of it. Longer ones are only hashed."""


def findings(folder: Path, name: str, record: Record, run: Run) -> Iterator[Finding]:
    """`name` is the record's. GPUs are counted by the facts of the run, where those still hold."""
    told, metrics = record.telemetry, record.metrics
    if told is None or told.samples is None:
        return
    if not _NAME.fullmatch(told.samples):
        yield Finding(name, "names samples that no bundle has a place for", "L3")
        return
    path = folder / "data" / told.samples
    if not path.is_file():
        yield Finding(f"data/{told.samples}", "is missing", "L3")
        return
    same_box = record.box_facts_sha256 == run.box_facts_sha256
    if told.window is None or metrics is None or not same_box or path.stat().st_size > _MOST_READ:
        return
    gpus = len(run.box_facts.get("gpus") or ())
    expected = Expected(
        tokens=metrics.output_tok_s * metrics.duration_s,
        gpus=gpus,
        used=use(record.deployment, gpus),
    )
    try:
        again = telemetry(path.read_text("utf-8"), told.window, expected)
    except (ArithmeticError, ValueError) as error:
        yield Finding(f"data/{told.samples}", f"cannot be read: {error}", "L3")
        return
    said = told.model_dump(exclude={"samples"}, exclude_unset=True)
    for key, stated, found in apart(said, again.model_dump(), stated=True):
        yield Finding(name, f"telemetry.{key} is {stated}, its samples give {found}", "L3")
