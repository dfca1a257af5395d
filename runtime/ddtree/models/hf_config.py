"""config.json as shapes: pure reading, every key checked, every variant refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddtree.config import DrafterShape, ModelShape
from ddtree.models.errors import ModelError
from ddtree.models.registry import FAMILIES

DRAFTER = "DFlashDraftModel"
# Keys of DFlash's successors: other heads or inputs, so running them as DFlash would be wrong.
SUCCESSORS = (
    "conv_kernel_size",
    "selector_rank",
    "projector_type",
    "markov_rank",
    "gru_hidden_dim",
)


@dataclass(frozen=True)
class Fields:
    """A JSON object that answers with the type asked for, or says which key is wrong."""

    path: Path
    values: Mapping[str, Any]

    def number(self, key: str, default: float | None = None) -> float:
        value = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ModelError(self.path, f"{key} must be a positive number, found {value!r}")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.number(key, default)
        if int(value) != value:
            raise ModelError(self.path, f"{key} must be a whole number, found {value!r}")
        return int(value)

    def flag(self, key: str) -> bool:
        return bool(self.values.get(key, False))

    def inner(self, key: str) -> Fields:
        value = self.values.get(key) or {}
        if not isinstance(value, dict):
            raise ModelError(self.path, f"{key} must be an object, found {value!r}")
        return Fields(self.path, value)


def target_shape(path: Path, values: Mapping[str, Any]) -> ModelShape:
    """The shape of a target. Raises ModelError for a family or a variant we cannot run."""
    fields = Fields(path, values)
    architecture = _architecture(fields)
    for name, family in FAMILIES.items():
        if family.architecture == architecture:
            return _shape(fields, name, qk_norm=family.qk_norm)
    known = ", ".join(family.architecture for family in FAMILIES.values())
    raise ModelError(
        path, f"architecture {architecture!r} is not supported", hint=f"known: {known}"
    )


def drafter_shape(path: Path, values: Mapping[str, Any]) -> DrafterShape:
    """The shape of a DFlash drafter; where the block is described differs between editions."""
    fields = Fields(path, values)
    if _architecture(fields) != DRAFTER:
        raise ModelError(path, f"is no DFlash drafter: architectures must be [{DRAFTER!r}]")
    block = fields.inner("dflash_config")
    _refuse_drafter_variants(fields, block)
    layers = _shape(fields, "qwen3", qk_norm=True)
    block_size = (block if "block_size" in block.values else fields).whole("block_size")
    if block_size < 2:
        raise ModelError(path, f"block_size {block_size} leaves nothing to draft")
    return DrafterShape(
        layers=layers,
        block_size=block_size,
        mask_token_id=_mask_token(fields, block),
        target_layer_ids=_target_layers(fields, block, layers.num_layers),
    )


def _shape(fields: Fields, family: str, *, qk_norm: bool) -> ModelShape:
    _refuse_variants(fields)
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    kv_heads = fields.whole("num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelError(fields.path, f"{heads} query heads cannot share {kv_heads} kv heads")
    rope = fields.inner("rope_parameters")  # transformers 5; before, rope_theta stood at the top
    return ModelShape(
        family=family,
        vocab_size=fields.whole("vocab_size"),
        hidden_size=hidden,
        intermediate_size=fields.whole("intermediate_size"),
        num_layers=fields.whole("num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=fields.whole("head_dim", hidden // heads),
        rms_norm_eps=fields.number("rms_norm_eps"),
        rope_theta=rope.number("rope_theta", fields.number("rope_theta", 10000.0)),
        max_positions=fields.whole("max_position_embeddings"),
        tied_embeddings=fields.flag("tie_word_embeddings"),
        qk_norm=qk_norm,
    )


def _architecture(fields: Fields) -> str:
    named = fields.values.get("architectures")
    if not isinstance(named, list) or len(named) != 1:
        raise ModelError(fields.path, f"architectures must name one model, found {named!r}")
    return str(named[0])


def _refuse_variants(fields: Fields) -> None:
    for key in ("rope_scaling", "rope_parameters"):
        rope = fields.inner(key).values
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default":
            raise ModelError(fields.path, f"{key}: rope scaling {kind!r} is not supported")
    activation = fields.values.get("hidden_act", "silu")
    if activation != "silu":
        raise ModelError(fields.path, f"hidden_act {activation!r} is not supported, only 'silu'")
    for key in ("attention_bias", "mlp_bias", "use_sliding_window"):
        if fields.flag(key):
            raise ModelError(fields.path, f"{key} is set, which is not supported")


def _refuse_drafter_variants(fields: Fields, block: Fields) -> None:
    for key in SUCCESSORS:
        if block.values.get(key, fields.values.get(key)):
            raise ModelError(fields.path, f"{key} is set: a successor of DFlash, not supported")
    if fields.flag("is_causal") or block.flag("causal"):
        raise ModelError(fields.path, "the block attends causally, which is not supported")
    kinds = set(fields.values.get("layer_types") or ()) - {"full_attention"}
    if kinds:
        raise ModelError(fields.path, f"layer_types {sorted(kinds)} are not supported")


def _mask_token(fields: Fields, block: Fields) -> int:
    value = block.values.get("mask_token_id", fields.values.get("mask_token_id"))
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ModelError(fields.path, f"mask_token_id must be a token id, found {value!r}")
    return value


def _target_layers(fields: Fields, block: Fields, layers: int) -> tuple[int, ...]:
    named = block.values.get("target_layer_ids", fields.values.get("target_layer_ids"))
    if named is None:
        whole = block if "num_target_layers" in block.values else fields
        return spread(whole.whole("num_target_layers"), layers)
    if not (isinstance(named, list) and named and all(type(n) is int and n >= 0 for n in named)):
        raise ModelError(fields.path, f"target_layer_ids must be layer numbers, found {named!r}")
    return tuple(named)


def spread(target_layers: int, count: int) -> tuple[int, ...]:
    """DFlash's default: `count` layers from the second to the third but last, evenly."""
    if count == 1:
        return (target_layers // 2,)
    step = (target_layers - 4) / (count - 1)
    return tuple(round(1 + i * step) for i in range(count))
