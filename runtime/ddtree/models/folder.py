"""A folder with config.json and safetensors: the checkpoint format of the field."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from ddtree.models.errors import ModelError
from ddtree.models.folder_json import read_json

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PREFIX = "model."
SCALE = "_scale"  # beside an int8 tensor: one factor a row (models/quantise.py)


class FolderWeights:
    """The tensors of all shards. Opening reads the headers only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at: dict[str, tuple[Path, str]] = {}  # our name -> shard, the shard's name
        self._shapes: dict[str, tuple[int, ...]] = {}
        for shard in shards(path):
            self._index(shard)
        self.shapes = {
            name: shape
            for name, shape in self._shapes.items()
            if not (name.endswith(SCALE) and name.removesuffix(SCALE) in self._shapes)
        }

    def read(self, name: str) -> torch.Tensor:
        tensor = self._get(name)
        if tensor.dtype != torch.int8:
            return tensor
        if name + SCALE not in self._at:
            raise ModelError(self._at[name][0], f"int8 tensor {name} has no {name + SCALE}")
        return tensor.float() * self._get(name + SCALE).float().unsqueeze(1)

    def _get(self, name: str) -> torch.Tensor:
        shard, stored = self._at[name]
        try:
            with safe_open(shard, framework="pt") as file:
                tensor: torch.Tensor = file.get_tensor(stored)
        except (SafetensorError, OSError) as error:
            raise ModelError(shard, f"tensor {stored} cannot be read: {error}") from error
        if not (tensor.is_floating_point() or tensor.dtype == torch.int8):
            raise ModelError(shard, f"tensor {stored} is {tensor.dtype}, not a float or int8 one")
        return tensor

    def _index(self, shard: Path) -> None:
        try:
            with safe_open(shard, framework="pt") as file:
                for stored in sorted(file.keys()):
                    name = stored.removeprefix(PREFIX)
                    self._at[name] = (shard, stored)
                    self._shapes[name] = tuple(file.get_slice(stored).get_shape())
        except FileNotFoundError as error:
            raise ModelError(shard, "is missing", hint="download the checkpoint again") from error
        except (SafetensorError, OSError) as error:
            raise ModelError(
                shard,
                f"is truncated or corrupt ({error})",
                hint="download it again and compare its sha256",
            ) from error


def shards(path: Path) -> list[Path]:
    """The safetensors files of a checkpoint, by its index or the one file."""
    if (path / INDEX).is_file():
        index = read_json(path / INDEX)
        named = index.get("weight_map")
        if not isinstance(named, dict):
            raise ModelError(path / INDEX, "has no weight_map")
        return [path / name for name in sorted(set(map(str, named.values())))]
    if (path / SINGLE).is_file():
        return [path / SINGLE]
    raise ModelError(path, f"has neither {SINGLE} nor {INDEX}")
