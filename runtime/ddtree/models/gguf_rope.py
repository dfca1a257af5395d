"""A GGUF's rope metadata as a scaling; Llama 3's is not metadata but a tensor of divisors."""

from __future__ import annotations

from ddtree.config import RopeScaling
from ddtree.models.errors import ModelError
from ddtree.models.gguf_file import GgufFile
from ddtree.models.hf_rope import yarn_amplitude

TABLE = "rope_freqs.weight"


def rope_scaling(file: GgufFile, prefix: str) -> RopeScaling | None:
    """None where nothing is stretched. Raises ModelError for a kind that is not known."""
    key = f"{prefix}.rope.scaling"
    kind = file.text(f"{key}.type") or "none"
    if kind not in ("none", "linear", "yarn"):
        raise ModelError(file.path, f"metadata {key}.type: {kind!r} is not supported")
    if TABLE in file.names:
        if kind != "none":
            raise ModelError(file.path, f"has {TABLE} and {key}.type {kind!r}: one too many")
        return RopeScaling("table", divisors=tuple(file.read(TABLE).ravel().tolist()))
    if kind == "none":
        return None
    factor = file.number(f"{key}.factor")
    if factor <= 0:
        raise ModelError(file.path, f"metadata {key}.factor must be positive, found {factor}")
    if kind == "linear":
        return RopeScaling("linear", factor)
    trained = file.number(f"{key}.original_context_length", file.number(f"{prefix}.context_length"))
    return RopeScaling(
        "yarn",
        factor,
        int(trained),
        slow=file.number(f"{key}.yarn_beta_slow", 1.0),
        fast=file.number(f"{key}.yarn_beta_fast", 32.0),
        amplitude=file.number(f"{key}.attn_factor", 1.0) * yarn_amplitude(factor),
    )
