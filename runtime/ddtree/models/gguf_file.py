"""A GGUF file as metadata and float32 arrays; read by the `gguf` library, without torch.

The tokenizer and the chat template read their metadata here too, before any tensor is touched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, ReaderTensor, dequantize

from ddtree.models.errors import ModelError

MAGIC = b"GGUF"


class _Reader(GGUFReader):
    """The library's reader on a plain array: slicing a memmap costs 3x (2.1 s against 0.6 s for
    SmolLM2's 49152 tokens and 48900 merges, Xeon 2.6 GHz)."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, np.asarray(value) if name == "data" else value)


class GgufFile:
    """One open file. Tensors carry the names of llama.cpp."""

    def __init__(
        self, path: Path, metadata: Mapping[str, Any], tensors: list[ReaderTensor]
    ) -> None:
        self.path = path
        self.metadata = metadata
        self._tensors = {tensor.name: tensor for tensor in tensors}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._tensors)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Row-major, as torch counts; the file stores the fastest dimension first."""
        return tuple(int(n) for n in reversed(self._tensors[name].shape.tolist()))

    def read(self, name: str, part: int | None = None) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The tensor, or one part of its outermost dimension: float32, never a view of the file."""
        tensor = self._tensors[name]
        shape = self.shape_of(name)
        try:
            data = tensor.data if part is None else tensor.data[part]
            values = dequantize(data, tensor.tensor_type)
        except NotImplementedError as error:
            kind = tensor.tensor_type.name
            raise ModelError(
                self.path,
                f"tensor {name} is stored as {kind}, which cannot be read",
                hint="take a file quantised as Q4_0, Q4_1, Q8_0, a K-quant, F16 or BF16",
            ) from error
        return np.require(values, np.float32, ["C", "W"]).reshape(
            shape if part is None else shape[1:]
        )

    def number(self, key: str, default: float | None = None) -> float:
        """A number of the metadata. Raises ModelError when it is missing or no number."""
        value = self.metadata.get(key, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise ModelError(self.path, f"metadata {key} must be a number, found {value!r}")
        return value

    def text(self, key: str) -> str | None:
        value = self.metadata.get(key)
        if value is not None and not isinstance(value, str):
            raise ModelError(self.path, f"metadata {key} must be text, found {value!r}")
        return value


def open_gguf_file(path: Path) -> GgufFile:
    """Raises ModelError when it is missing, no GGUF, truncated or corrupt."""
    try:
        state = path.stat()
    except OSError as error:
        raise ModelError(path, f"cannot be read: {error.strerror or error}") from error
    return _opened(path.resolve(), (state.st_ino, state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=1)  # weights, tokenizer and chat template open the same file one after another
def _opened(path: Path, edition: tuple[int, ...]) -> GgufFile:
    del edition  # it is there to notice another file under the same name
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ModelError(path, "is not a GGUF file")
    try:
        with np.errstate(over="raise"):
            reader = _Reader(path)
            metadata = {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, OverflowError, ArithmeticError) as error:
        # the library walks past the end of a short file and fails wherever it lands
        raise ModelError(
            path,
            f"is truncated or corrupt ({error})",
            hint="download it again and compare its sha256",
        ) from error
    return GgufFile(path, metadata, reader.tensors)
