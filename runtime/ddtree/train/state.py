"""What a run keeps between two slices: small files, written whole or not at all.

Eight bits a weight and a scale a row for the average of the weights, and eight more for how far the
weights themselves are from it: together 15 bits, 37 MiB for 19.4 M parameters. The optimiser's
moments remember 20 steps and are not kept. A run goes on from what it saved, not from what it had,
so that a resumed run and an uninterrupted one are the same.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ddtree.models.errors import ModelError
from ddtree.models.folder import SCALE
from ddtree.models.folder_json import read_json
from ddtree.models.quantise import quantise_rows

Weights = dict[str, torch.Tensor]
RUN, BEST = "run.json", "best.safetensors"
AWAY = "away."  # before a name: the weight less its average


@dataclass(frozen=True)
class Progress:
    """How far a run has come. `history` has one entry a checkpoint."""

    recipe: dict[str, Any]
    step: int = 0
    seconds: float = 0.0  # of all slices
    best: float = 0.0  # highest held-out score
    best_step: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def state(self) -> str:
        return f"state-{self.step}.safetensors"


def to_eight_bits(weights: Weights) -> Weights:
    """Matrices as int8 rows with scales; vectors as they are, in float32."""
    small: Weights = {}
    for name, weight in weights.items():
        if weight.dim() == 1:
            small[name] = weight.float().cpu()
        else:
            rows, scale = quantise_rows(weight.detach())
            small[name], small[name + SCALE] = rows.cpu(), scale.cpu()
    return small


def from_eight_bits(small: Weights) -> Weights:
    """float32 again."""
    return {
        name: stored.float() * small[name + SCALE].unsqueeze(1) if name + SCALE in small else stored
        for name, stored in small.items()
        if not name.endswith(SCALE)
    }


def save(folder: Path, progress: Progress, weights: Weights, average: Weights) -> None:
    """Write both, then the progress that names them; then what it named before goes."""
    kept = to_eight_bits(average)
    exact = from_eight_bits(kept)
    away = {AWAY + name: weights[name].cpu() - exact[name] for name in weights}
    _write(folder / progress.state, kept | to_eight_bits(away))
    part = folder / f".{RUN}.part"
    part.write_text(json.dumps(asdict(progress), indent=1) + "\n", encoding="utf-8")
    part.replace(folder / RUN)
    for old in folder.glob("state-*.safetensors"):
        if old.name != progress.state:
            old.unlink()


def load(folder: Path, progress: Progress) -> tuple[Weights, Weights]:
    """Weights and their average, float32 on the CPU. Raises ModelError."""
    exact = from_eight_bits(_read(folder / progress.state))
    average = {name: weight for name, weight in exact.items() if not name.startswith(AWAY)}
    return {name: average[name] + exact[AWAY + name] for name in average}, average


def load_progress(folder: Path) -> Progress | None:
    """None where no run has begun. Raises ModelError when the file is not a run's."""
    if not (folder / RUN).is_file():
        return None
    try:
        return Progress(**read_json(folder / RUN))
    except TypeError as error:
        raise ModelError(folder / RUN, f"is no run's progress: {error}") from error


def save_best(folder: Path, average: Weights) -> None:
    _write(folder / BEST, to_eight_bits(average))


def load_best(folder: Path) -> Weights:
    return from_eight_bits(_read(folder / BEST))


def _write(path: Path, tensors: Weights) -> None:
    part = path.with_name(f".{path.name}.part")
    save_file(tensors, part)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def _read(path: Path) -> Weights:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            path, f"cannot be read: {error}", hint="carry it along with run.json, or begin anew"
        ) from error
