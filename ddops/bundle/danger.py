"""What it means for the claims of a bundle that a box is not what the bundle's was. Pure.

A difference that no speed and no answer is known to depend on is none here: no two boxes have the
same folders and users.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ddops.analysis import drift
from ddops.analysis.claims import claims
from ddops.analysis.repeats import groups
from ddops.bundle.bag import Finding
from ddops.spec.drift import Drift
from ddops.spec.packages import Environment
from ddops.spec.record import Record
from ddops.spec.run import Run

Matter = Literal["speeds", "speeds and answers"]

_FACTS: Final[tuple[tuple[str, Matter], ...]] = (
    (r"system\.(arch|cpu|cpu_flags)", "speeds and answers"),  # which kernels, so which rounding
    (r"system\.(os|kernel|glibc|cores|memory)", "speeds"),
    (r"python\.(torch|torch_cuda)", "speeds and answers"),
    (r"python\.version", "speeds"),
    (r"gpus\.\d+\.(name|compute_capability|driver)", "speeds and answers"),
    (r"gpus\.\d+\.(memory_mib|power_limit_w)", "speeds"),
)
_PACKAGES: Final[tuple[tuple[str, Matter], ...]] = (
    (
        r"ddops|torch|triton|numpy|safetensors|gguf|tokenizers|minijinja|transformers|sglang|sgl-.*"
        r"|vllm|flash.*|xgrammar|compressed-tensors|nvidia-(?!ml-py).*",
        "speeds and answers",
    ),
    (r"fastapi|starlette|uvicorn|uvloop|httptools|pydantic.*|prometheus-client|orjson", "speeds"),
)
_FILES: Final[Mapping[str, str]] = {
    "box": "data/box-facts.json",
    "python": "data/environment.json",
    "package": "data/environment.json",
    "weights": "data/weights.json",
}


@dataclass(frozen=True)
class Danger:
    """One difference, and what it may change."""

    drift: Drift
    matter: Matter
    cells: tuple[str, ...]  # ids of those it may change
    every: bool  # that is every good one
    claims: tuple[str, ...]  # that rest on them

    @property
    def line(self) -> str:
        one = self.drift
        return f"{one.what} was {one.wanted}, on the box it is {one.there}"

    @property
    def finding(self) -> Finding:
        cells = "every cell" if self.every else ", ".join(self.cells)
        reason = f"{self.line}: endangers the {self.matter} of {cells}"
        return Finding(_FILES[self.drift.subject], reason, "L4")


def differences(
    run: Run, before: Environment | None, facts: Mapping[str, Any], now: Environment
) -> list[Drift]:
    """`facts` and `now` are of the box as it is; `before` None: the bundle does not tell.

    Nor is what nobody asked for when the bundle was made, and of a package only its version
    counts: the list of its files depends on who installed it.
    """
    found = drift.keys("box", _asked(run.box_facts, facts), _asked(facts, run.box_facts))
    if before is None:
        return found
    same = {one.name: one.version for one in before.packages}.items()
    moved = {one.name for one in now.packages if (one.name, one.version) not in same}
    gone = {one.name for one in before.packages} - {one.name for one in now.packages}
    packages = drift.packages(before, now)
    return found + [one for one in packages if one.subject != "package" or one.what in moved | gone]


def dangers(run: Run, records: Sequence[Record], found: Sequence[Drift]) -> Iterator[Danger]:
    """Those of `found` that a good record may depend on. `records`: the last of each cell."""
    stated, good = claims(groups(run.matrix, records)), [each for each in records if each.ok]
    for one in found:
        cells = tuple(record.cell.id for record in good if _concerns(one, record))
        if (matter := _matter(one)) is not None and cells:
            hit = tuple(claim.text for claim in stated if {*claim.records} & {*cells})
            yield Danger(one, matter, cells, every=len(cells) == len(good), claims=hit)


def _asked(of: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """`of`, with only those facts of system and Python that the other side has as well."""
    return {
        subject: {key: value for key, value in facts.items() if key in other.get(subject, {})}
        if isinstance(facts, dict)
        else facts
        for subject, facts in of.items()
    }


def _matter(one: Drift) -> Matter | None:
    if one.subject == "weights":
        return "speeds and answers"
    if one.subject == "python":
        return "speeds"
    table = {"box": _FACTS, "package": _PACKAGES}.get(one.subject, ())
    return next((matter for pattern, matter in table if re.fullmatch(pattern, one.what)), None)


def _concerns(one: Drift, record: Record) -> bool:
    """What only drafts is no matter to `ar`."""
    drafts = one.subject == "weights" and one.what == "drafter"
    return not (drafts and record.cell.variant.mode == "ar")
