"""The mask's own embedding, where a drafter brings one: `mask_embedding.pt` beside its weights.

Drafters of the field carry a bare vector, or an object with the vector and its mask token.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import torch

from ddtree.config import DrafterShape
from ddtree.models.errors import ModelError

FILE = "mask_embedding.pt"
KEYS = ("embedding", "mask_embedding")


def mask_embedding(folder: Path, shape: DrafterShape) -> torch.Tensor | None:
    """[H], or None where the target's row is used. Raises ModelError, naming the file."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise ModelError(path, f"cannot be read: {error}") from error
    vector = _vector(path, stored, shape.mask_token_id)
    if vector.numel() != shape.layers.hidden_size or not vector.is_floating_point():
        found = f"{vector.numel()} values of {vector.dtype}"
        raise ModelError(path, f"must be {shape.layers.hidden_size} floats, found {found}")
    return vector.flatten()


def _vector(path: Path, stored: object, mask_token: int) -> torch.Tensor:
    if isinstance(stored, dict):
        said = stored.get("mask_token_id", mask_token)
        if said != mask_token:
            raise ModelError(path, f"is of token {said}, config.json masks with {mask_token}")
        stored = next((stored[key] for key in KEYS if key in stored), None)
    if not isinstance(stored, torch.Tensor):
        raise ModelError(path, "holds no tensor, alone or under 'embedding'")
    return stored
