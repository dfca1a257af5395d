"""The tensors of a checkpoint by name: the tables of names and shapes, and the taking out.

Names are Hugging Face's without the `model.` prefix, which some checkpoints leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from ddtree.config import Latent, ModelShape
from ddtree.models.errors import ModelError

Shapes = dict[str, tuple[int, ...]]

EMBEDDING = "embed_tokens.weight"
NORM = "norm.weight"
HEAD = "lm_head.weight"

# A part of a layer, and the tensors whose rows it stacks.
ATTENTION_NORM = ("input_layernorm.weight",)
QKV = ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight")
OUTPUT = ("self_attn.o_proj.weight",)
QK_NORM = ("self_attn.q_norm.weight", "self_attn.k_norm.weight")
MLP_NORM = ("post_attention_layernorm.weight",)
GATE_UP = ("mlp.gate_proj.weight", "mlp.up_proj.weight")
DOWN = ("mlp.down_proj.weight",)
ROUTER = ("mlp.gate.weight",)
CORRECTION = "mlp.gate.e_score_correction_bias"
# Latent attention: queries at once or through a latent of their own, keys and values through one
QUERY = QKV[0]
QUERY_DOWN = "self_attn.q_a_proj.weight"
QUERY_NORM = "self_attn.q_a_layernorm.weight"
QUERY_UP = "self_attn.q_b_proj.weight"
LATENT_DOWN = "self_attn.kv_a_proj_with_mqa.weight"  # the rotated key's rows too
LATENT_NORM = "self_attn.kv_a_layernorm.weight"
LATENT_UP = "self_attn.kv_b_proj.weight"

IGNORED = ("rotary_emb.inv_freq",)  # old checkpoints carry this constant
SIGHT = ("vision_tower.", "mm_projector.")  # parts of a model that also sees: text only here
NAMED = 4  # tensors a message lists before it says how many more there are


class Weights(Protocol):
    """A checkpoint opened: names and shapes are known, a tensor is read when asked for."""

    @property
    def path(self) -> Path: ...
    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...
    def read(self, name: str) -> torch.Tensor:
        """In whatever float type it is stored as. Raises ModelError."""


class Part(NamedTuple):
    """Rows (`dim` 0) or columns (1) begin .. end - 1 of a tensor."""

    dim: int
    begin: int
    end: int

    def divided(self, by: int) -> Part:
        """The same of a tensor that has one entry for `by` of this one's."""
        return Part(self.dim, self.begin // by, self.end // by)


@runtime_checkable
class Divisible(Protocol):
    """Weights that can read a part of a tensor without the rest of it."""

    def read_part(self, name: str, part: Part | None) -> torch.Tensor:
        """Contiguous; None: all of it. Raises ModelError."""


class Int4(NamedTuple):
    """A matrix as compressed-tensors stores it."""

    words: torch.Tensor  # [out, in / 8] int32
    scale: torch.Tensor  # [out, groups]


@runtime_checkable
class HoldsInt4(Protocol):
    """Weights of which some are stored in INT4."""

    def read_int4(self, name: str, part: Part | None) -> Int4 | None:
        """A tensor, or a part of it, as it is stored; None if it is no INT4. Raises ModelError."""


@dataclass(frozen=True)
class Checkpoint:
    shape: ModelShape
    weights: Weights


def layer_name(index: int, tensor: str) -> str:
    return f"layers.{index}.{tensor}"


def expert_name(index: int, tensor: str) -> str:
    """`mlp.up_proj.weight` of one expert."""
    return tensor.replace("mlp.", f"mlp.experts.{index}.", 1)


def shared_name(tensor: str) -> str:
    """`mlp.up_proj.weight` of the expert that every token passes through."""
    return tensor.replace("mlp.", "mlp.shared_experts.", 1)


def decoder_shapes(shape: ModelShape) -> Shapes:
    """Every tensor of the layers and the last norm, with the shape the config promises."""
    hidden = shape.hidden_size
    layer: Shapes = dict.fromkeys(ATTENTION_NORM + MLP_NORM, (hidden,))
    layer |= _head_shapes(shape) if shape.latent is None else _latent_shapes(shape, shape.latent)
    named = {
        layer_name(i, tensor): wanted
        for i in range(shape.num_layers)
        for tensor, wanted in (layer | feed_forward_shapes(shape, i)).items()
    }
    return named | {NORM: (hidden,)}


def _head_shapes(shape: ModelShape) -> Shapes:
    hidden = shape.hidden_size
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    named: Shapes = dict(zip(QKV, ((queries, hidden), (keys, hidden), (keys, hidden)), strict=True))
    norms = dict.fromkeys(QK_NORM, (shape.head_dim,)) if shape.qk_norm else {}
    return named | {OUTPUT[0]: (hidden, queries)} | norms


def _latent_shapes(shape: ModelShape, latent: Latent) -> Shapes:
    hidden, heads = shape.hidden_size, shape.num_heads
    queries, rank = heads * shape.head_dim, latent.query_rank
    named: Shapes = {
        LATENT_DOWN: (latent.cached_dim, hidden),
        LATENT_NORM: (latent.rank,),
        LATENT_UP: (heads * (latent.nope_dim + latent.value_dim), latent.rank),
        OUTPUT[0]: (hidden, heads * latent.value_dim),
    }
    if rank is None:
        return named | {QUERY: (queries, hidden)}
    return named | {QUERY_DOWN: (rank, hidden), QUERY_NORM: (rank,), QUERY_UP: (queries, rank)}


def feed_forward_shapes(shape: ModelShape, layer: int) -> Shapes:
    hidden, experts = shape.hidden_size, shape.experts
    if experts is None or layer in experts.dense_layers:
        return _gated_shapes(hidden, shape.intermediate_size)
    one = _gated_shapes(hidden, experts.intermediate_size)
    named = {
        expert_name(i, name): wanted for i in range(experts.count) for name, wanted in one.items()
    }
    named[ROUTER[0]] = (experts.count, hidden)
    if experts.sigmoid is not None:
        named[CORRECTION] = (experts.count,)
    if experts.shared_size:
        shared = _gated_shapes(hidden, experts.shared_size)
        named |= {shared_name(tensor): wanted for tensor, wanted in shared.items()}
    return named


def _gated_shapes(hidden: int, inner: int) -> Shapes:
    return {**dict.fromkeys(GATE_UP, (inner, hidden)), DOWN[0]: (hidden, inner)}


def check_shapes(weights: Weights, wanted: Shapes) -> None:
    """Raise ModelError unless the checkpoint has exactly these tensors with these shapes.

    The error names whatever is wrong, of each kind the first few; no weight is read for it.
    """
    found = weights.shapes
    missing = sorted(wanted.keys() - found.keys())
    extra = sorted(n for n in found.keys() - wanted.keys() if not _ignored(n))
    wrong = [
        f"tensor {name} is {_times(found[name])}, not {_times(shape)}"
        for name, shape in wanted.items()
        if name in found and tuple(found[name]) != shape
    ]
    said = [f"lacks {_list(missing)}"] if missing else []
    said += wrong[:NAMED]
    if len(wrong) > NAMED:
        said.append(f"{len(wrong) - NAMED} more have another shape")
    hint = None
    if extra:
        said.append(f"holds {_list(extra)}, which this engine has no place for")
        hint = "the model is of a variant that is not supported"
    if said:
        raise ModelError(weights.path, "; ".join(said), hint=hint)


def _ignored(name: str) -> bool:
    return name.endswith(IGNORED) or name.startswith(SIGHT)


def take(weights: Weights, names: Sequence[str], like: torch.Tensor) -> torch.Tensor:
    """The named tensors stacked by rows, in the dtype and on the device of `like`."""
    parts = [weights.read(name).to(like) for name in names]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED])
    rest = len(names) - NAMED
    word = "tensor" if len(names) == 1 else "tensors"
    return f"{word} {shown}" + (f" and {rest} more" if rest > 0 else "")


def _times(shape: Sequence[int]) -> str:
    return " x ".join(str(n) for n in shape)
