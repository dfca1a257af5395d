"""The tensors of a checkpoint by name: the tables of names and shapes, and the taking out.

Names are Hugging Face's without the `model.` prefix, which some checkpoints leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from ddtree.config import ModelShape
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

IGNORED = ("rotary_emb.inv_freq",)  # old checkpoints carry this constant
NAMED = 4  # tensors a message lists before it says how many more there are


class Weights(Protocol):
    """A checkpoint opened: names and shapes are known, a tensor is read when asked for."""

    @property
    def path(self) -> Path: ...
    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...
    def read(self, name: str) -> torch.Tensor:
        """In whatever float type it is stored as. Raises ModelError."""


@dataclass(frozen=True)
class Checkpoint:
    shape: ModelShape
    weights: Weights


def layer_name(index: int, tensor: str) -> str:
    return f"layers.{index}.{tensor}"


def expert_name(index: int, tensor: str) -> str:
    """`mlp.up_proj.weight` of one expert."""
    return tensor.replace("mlp.", f"mlp.experts.{index}.", 1)


def decoder_shapes(shape: ModelShape) -> Shapes:
    """Every tensor of the layers and the last norm, with the shape the config promises."""
    hidden = shape.hidden_size
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    layer: Shapes = {
        ATTENTION_NORM[0]: (hidden,),
        **dict(zip(QKV, ((queries, hidden), (keys, hidden), (keys, hidden)), strict=True)),
        OUTPUT[0]: (hidden, queries),
        MLP_NORM[0]: (hidden,),
    }
    if shape.qk_norm:
        layer |= dict.fromkeys(QK_NORM, (shape.head_dim,))
    named = {
        layer_name(i, tensor): wanted
        for i in range(shape.num_layers)
        for tensor, wanted in (layer | feed_forward_shapes(shape, i)).items()
    }
    return named | {NORM: (hidden,)}


def feed_forward_shapes(shape: ModelShape, layer: int) -> Shapes:
    hidden, experts = shape.hidden_size, shape.experts
    if experts is None or layer in experts.dense_layers:
        return _gated_shapes(hidden, shape.intermediate_size)
    one = _gated_shapes(hidden, experts.intermediate_size)
    named = {
        expert_name(i, name): wanted for i in range(experts.count) for name, wanted in one.items()
    }
    return named | {ROUTER[0]: (experts.count, hidden)}


def _gated_shapes(hidden: int, inner: int) -> Shapes:
    return {**dict.fromkeys(GATE_UP, (inner, hidden)), DOWN[0]: (hidden, inner)}


def check_shapes(weights: Weights, wanted: Shapes) -> None:
    """Raise ModelError unless the checkpoint has exactly these tensors with these shapes."""
    found = weights.shapes
    if missing := sorted(wanted.keys() - found.keys()):
        raise ModelError(weights.path, f"lacks {_list(missing)}")
    for name, shape in wanted.items():
        if tuple(found[name]) != shape:
            raise ModelError(
                weights.path, f"tensor {name} is {_times(found[name])}, not {_times(shape)}"
            )
    extra = sorted(n for n in found.keys() - wanted.keys() if not n.endswith(IGNORED))
    if extra:
        raise ModelError(
            weights.path,
            f"holds {_list(extra)}, which this engine has no place for",
            hint="the model is of a variant that is not supported",
        )


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
