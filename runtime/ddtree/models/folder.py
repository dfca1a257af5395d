"""A folder with config.json and safetensors: the checkpoint format of the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from ddtree.models.errors import ModelError
from ddtree.models.folder_json import read_json
from ddtree.models.packed import dequantise, fits
from ddtree.models.weights import Int4, Part
from ddtree.ops.experts.packed import PER_WORD

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PREFIXES = ("language_model.", "model.")  # the first where a model also sees
SCALE = "_scale"  # beside an int8 tensor: one factor a row (models/quantise.py)
# NAME [out, in] as INT4: NAME_packed int32 [out, in / 8], NAME_scale [out, groups], NAME_shape [2]
PACKED, SHAPE = "_packed", "_shape"


class FolderWeights:
    """The tensors of all shards. Opening reads the headers only; int8 becomes floats, and
    INT4 too where it is not asked for as it is.

    Shards stay mapped, so that a part of a tensor costs its own pages alone, and ranks that read
    the same shard read it from the disk once. Any number of threads may read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[Path, Any] = {}  # of `safe_open`, which is not typed
        self._at: dict[str, tuple[Path, str]] = {}  # our name -> shard, the shard's name
        self._stored: dict[str, tuple[int, ...]] = {}
        for shard in shards(path):
            self._index(shard)
        self.shapes = self._whole_shapes()

    def read(self, name: str) -> torch.Tensor:
        return self.read_part(name, None)

    def read_part(self, name: str, part: Part | None) -> torch.Tensor:
        if (packed := self.read_int4(name, part)) is not None:
            return dequantise(*packed)
        tensor, (shard, stored) = self._get(name, part), self._at[name]
        scaled = name + SCALE in self._at
        if tensor.is_floating_point() and not scaled:
            return tensor
        if tensor.dtype != torch.int8:
            kind = f"{tensor.dtype} with a scale" if scaled else str(tensor.dtype)
            raise ModelError(shard, f"tensor {stored} is {kind}, not a float or int8 one")
        if not scaled:
            raise ModelError(shard, f"int8 tensor {name} has no {name + SCALE}")
        rows = part if part is not None and part.dim == 0 else None
        scale = self._get(name + SCALE, rows)  # one a row
        return tensor.float() * scale.float().unsqueeze(1)

    def read_int4(self, name: str, part: Part | None) -> Int4 | None:
        if name in self._at:
            return None
        shape, (shard, stored) = list(self.shapes[name]), self._at[name + PACKED]
        said = self._get(name + SHAPE).tolist()
        if said != shape:
            raise ModelError(shard, f"tensor {stored} unpacks to {shape}, its shape says {said}")
        words, scale = part, part
        if part is not None and part.dim == 1:
            groups = self._stored[name + SCALE][-1]
            if shape[1] % groups or part.begin % (size := shape[1] // groups) or part.end % size:
                what = f"columns {part.begin} to {part.end} cut a group of scales in two"
                raise ModelError(shard, f"tensor {stored}: {what}", hint="choose fewer ranks")
            words, scale = part.divided(PER_WORD), part.divided(size)
        packed, factors = self._get(name + PACKED, words), self._get(name + SCALE, scale)
        if not fits(packed, factors):
            raise ModelError(shard, f"tensor {stored} is not INT4 with a scale a group of columns")
        return Int4(packed, factors)

    def _get(self, name: str, part: Part | None = None) -> torch.Tensor:
        shard, stored = self._at[name]
        try:
            file = self._files[shard]
            if part is None:
                whole: torch.Tensor = file.get_tensor(stored)
                return whole
            wanted = (slice(None),) * part.dim + (slice(part.begin, part.end),)
            found: torch.Tensor = file.get_slice(stored)[wanted]
        except (SafetensorError, OSError) as error:
            raise ModelError(shard, f"tensor {stored} cannot be read: {error}") from error
        return found.contiguous()

    def _index(self, shard: Path) -> None:
        try:
            self._files[shard] = safe_open(shard, framework="pt")
            file = self._files[shard]
            for stored in sorted(file.keys()):
                name = our_name(stored)
                self._at[name] = (shard, stored)
                self._stored[name] = tuple(file.get_slice(stored).get_shape())
        except FileNotFoundError as error:
            raise ModelError(shard, "is missing", hint="download the checkpoint again") from error
        except (SafetensorError, OSError) as error:
            raise ModelError(
                shard,
                f"is truncated or corrupt ({error})",
                hint="download it again and compare its sha256",
            ) from error

    def _whole_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what `read` gives: parts of a tensor are not tensors."""
        whole = dict(self._stored)
        for name in self._stored:
            if name.endswith(SCALE) and name.removesuffix(SCALE) in self._stored:
                del whole[name]
            elif name.endswith(PACKED):
                own = name.removesuffix(PACKED)
                for part in (own + SCALE, own + SHAPE):
                    if whole.pop(part, None) is None:
                        raise ModelError(self._at[name][0], f"INT4 tensor {name} has no {part}")
                *rows, words = whole.pop(name)
                whole[own] = (*rows, words * PER_WORD)
        return whole


def our_name(stored: str) -> str:
    for prefix in PREFIXES:
        stored = stored.removeprefix(prefix)
    return stored


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
