"""Writes a drafter at 8 bits with a float scale a row: how the bundled asset is made.

    python -m ddtree.models.quantise SOURCE DESTINATION

Norms stay as they are. Reading back is `models/folder.py`'s: int8 beside `NAME_scale`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from ddtree.models.errors import ModelError
from ddtree.models.folder import SCALE, SINGLE, FolderWeights
from ddtree.models.folder_json import read_json
from ddtree.models.hf_config import drafter_shape
from ddtree.models.mask_embedding import FILE as MASK
from ddtree.models.source import CONFIG

LARGEST = 127


def quantise_rows(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 [out, in] and float32 [out], so that weight is about int8 * scale; a zero row stays."""
    exact = weight.float()
    scale = exact.abs().amax(dim=1) / LARGEST  # [out]
    steps = exact / scale.clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(1)
    return steps.round().clamp(-LARGEST, LARGEST).to(torch.int8), scale


def quantise_folder(source: Path, destination: Path) -> int:
    """Write `destination` from the drafter in `source`; returns the bytes of its weights."""
    weights = FolderWeights(source)
    config = read_json(source / CONFIG)
    drafter_shape(source / CONFIG, config)  # refuses what the loader would refuse
    tensors: dict[str, torch.Tensor] = {}
    for name in sorted(weights.shapes):
        tensor = weights.read(name)
        if tensor.dim() == 2:
            tensors[name], tensors[name + SCALE] = quantise_rows(tensor)
        else:
            tensors[name] = tensor
    destination.mkdir(parents=True, exist_ok=True)
    written = destination / f".{SINGLE}.part"
    save_file(tensors, written, metadata={"format": "pt"})
    written.chmod(0o644)  # safetensors writes it for the owner alone
    written.replace(destination / SINGLE)
    marked = config | {
        "quantization_config": {"quant_method": "int8-rows", "scale": f"NAME{SCALE}"}
    }
    (destination / CONFIG).write_text(json.dumps(marked, indent=1) + "\n", encoding="utf-8")
    if (source / MASK).is_file():
        shutil.copyfile(source / MASK, destination / MASK)
    return (destination / SINGLE).stat().st_size


def main(argv: Sequence[str]) -> int:
    if len(argv) != 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        size = quantise_folder(Path(argv[0]), Path(argv[1]))
    except ModelError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    sys.stderr.write(f"{argv[1]}: {size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
