"""From a path to a model: a GGUF file, a folder of safetensors, or the drafter that comes along."""

from __future__ import annotations

from pathlib import Path

import torch

from ddtree.config import DrafterShape, ModelShape
from ddtree.models.dflash import Drafter, misfit
from ddtree.models.errors import ModelError
from ddtree.models.folder import FolderWeights
from ddtree.models.folder_json import read_json
from ddtree.models.gguf_weights import open_gguf
from ddtree.models.hf_config import drafter_shape, target_shape
from ddtree.models.llama import Llama
from ddtree.models.mask_embedding import mask_embedding
from ddtree.models.source import CONFIG, Source, find_source
from ddtree.models.split import UNSPLIT, Split
from ddtree.models.weights import HEAD, Checkpoint
from ddtree.ops.latent_attention import has_kernel

BUNDLED = "bundled"
ASSET = Path(__file__).parent.parent / "assets" / "smollm2-135m-dflash"


def open_target(path: Path | str) -> Checkpoint:
    """Names and shapes only: quick, and enough to check a box's memory. Raises ModelError."""
    source = find_source(path)
    if source.gguf is not None:
        return open_gguf(source.gguf)
    return _open_folder(source)


def load_target(
    path: Path | str, dtype: torch.dtype, device: torch.device, split: Split = UNSPLIT
) -> Llama:
    """One rank's share of it. Raises ModelError, naming the file and the tensor."""
    checkpoint = open_target(path)
    latent = checkpoint.shape.latent
    if latent is not None and device.type != "cpu" and not has_kernel(latent.rank, latent.rope_dim):
        raise ModelError(
            checkpoint.weights.path,
            f"has latents of {latent.rank} + {latent.rope_dim} numbers; kernels take powers of two",
            hint="give --device cpu",
        )
    return Llama(checkpoint.shape, checkpoint.weights, _like(dtype, device), split)


def open_drafter(path: Path | str) -> DrafterShape:
    """`path` is a folder or `bundled`. Raises ModelError."""
    folder = drafter_folder(path)
    return drafter_shape(folder / CONFIG, read_json(folder / CONFIG))


def load_drafter(
    path: Path | str,
    target: ModelShape,
    dtype: torch.dtype,
    device: torch.device,
    split: Split = UNSPLIT,
) -> Drafter:
    """One rank's share of a drafter. Raises ModelError, also when it does not fit `target`."""
    folder = drafter_folder(path)
    shape = open_drafter(folder)
    mask = mask_embedding(folder, shape)
    if (reason := misfit(shape, target, own_mask=mask is not None)) is not None:
        raise ModelError(folder, f"this drafter {reason}", hint="it was made for another target")
    return Drafter(shape, FolderWeights(folder), _like(dtype, device), mask, split)


def drafter_folder(path: Path | str) -> Path:
    return ASSET if str(path) == BUNDLED else Path(path)


def _open_folder(source: Source) -> Checkpoint:
    config = source.folder / CONFIG
    shape = target_shape(config, read_json(config))
    weights = FolderWeights(source.folder)
    if shape.tied_embeddings:  # some checkpoints store the tied head once more
        weights.shapes.pop(HEAD, None)
    return Checkpoint(shape, weights)


def _like(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.empty(0, dtype=dtype, device=device)
