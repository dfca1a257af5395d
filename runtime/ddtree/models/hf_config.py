"""config.json as shapes: pure reading, every key checked, every variant refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddtree.config import DrafterShape, Experts, ModelShape, Reach
from ddtree.models.errors import ModelError
from ddtree.models.fields import Fields
from ddtree.models.hf_deepseek import latent, sigmoid_experts
from ddtree.models.hf_rope import OWNER, rope_scaling, rope_theta
from ddtree.models.registry import FAMILIES

DRAFTER = "DFlashDraftModel"
SEEING = "KimiK25ForConditionalGeneration"  # its text_config is a whole config
# Keys of DFlash's successors: other heads or inputs, so running them as DFlash would be wrong.
SUCCESSORS = (
    "conv_kernel_size",
    "selector_rank",
    "projector_type",
    "markov_rank",
    "gru_hidden_dim",
)
SCALES = ("input_embedding_scale", "output_multiplier")  # other than 1 they change the block
FULL, SLIDING = "full_attention", "sliding_attention"


def target_shape(path: Path, values: Mapping[str, Any]) -> ModelShape:
    """The shape of a target. Raises ModelError for a family or a variant we cannot run."""
    fields = Fields(path, values)
    architecture = _architecture(fields)
    if architecture == SEEING:
        fields = fields.inner("text_config")
        architecture = _architecture(fields)
    for name, family in FAMILIES.items():
        if family.architecture == architecture:
            if family.latent:
                return _latent_shape(fields, name)
            experts = _experts(fields) if family.experts else None
            return _shape(fields, name, "target", experts)
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
    layers = _shape(fields, "qwen3", "drafter")
    block_size = (block if "block_size" in block.values else fields).whole("block_size")
    if block_size < 2:
        raise ModelError(path, f"block_size {block_size} leaves nothing to draft")
    return DrafterShape(
        layers=layers,
        block_size=block_size,
        mask_token_id=_mask_token(fields, block),
        target_layer_ids=_target_layers(fields, block, layers.num_layers),
        reaches=_reaches(fields, block, layers.num_layers),
    )


def _shape(fields: Fields, family: str, owner: OWNER, experts: Experts | None = None) -> ModelShape:
    _refuse_variants(fields)
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    kv_heads = fields.whole("num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelError(fields.path, f"{heads} query heads cannot share {kv_heads} kv heads")
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
        rope_theta=rope_theta(fields),
        max_positions=fields.whole("max_position_embeddings"),
        tied_embeddings=fields.flag("tie_word_embeddings"),
        qk_norm=FAMILIES[family].qk_norm,
        rope_scaling=rope_scaling(fields, owner),
        experts=experts,
    )


def _latent_shape(fields: Fields, family: str) -> ModelShape:
    """`head_dim` of such a config is what is rotated, where it stands at all."""
    own = latent(fields)
    shape = _shape(fields, family, "target", sigmoid_experts(fields))
    return replace(shape, head_dim=own.nope_dim + own.rope_dim, latent=own)


def _experts(fields: Fields) -> Experts:
    """Which layers are mixtures is said by a stride and a list of exceptions."""
    named = "num_experts" if "num_experts" in fields.values else "num_local_experts"
    count, active = fields.whole(named), fields.whole("num_experts_per_tok")
    if active > count:
        raise ModelError(fields.path, f"num_experts_per_tok {active} of {named} {count}")
    layers, stride = fields.whole("num_hidden_layers"), fields.whole("decoder_sparse_step", 1)
    exceptions = fields.values.get("mlp_only_layers") or []
    dense = tuple(n for n in range(layers) if n in exceptions or (n + 1) % stride)
    return Experts(
        count=count,
        active=active,
        intermediate_size=fields.whole("moe_intermediate_size"),
        normalised=fields.flag("norm_topk_prob"),
        dense_layers=dense,
    )


def _architecture(fields: Fields) -> str:
    named = fields.values.get("architectures")
    if not isinstance(named, list) or len(named) != 1:
        raise ModelError(fields.path, f"architectures must name one model, found {named!r}")
    return str(named[0])


def _refuse_variants(fields: Fields) -> None:
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
    for key in SCALES:
        if block.values.get(key, fields.values.get(key, 1.0)) != 1.0:
            raise ModelError(fields.path, f"{key} is not 1, which is not supported")
    if block.values.get("final_logit_softcapping", fields.values.get("final_logit_softcapping")):
        raise ModelError(fields.path, "final_logit_softcapping is set, which is not supported")


def _reaches(fields: Fields, block: Fields, layers: int) -> tuple[Reach, ...]:
    """A sliding layer is causal in its block, a full one is not, unless the config says so."""
    kinds = fields.values.get("layer_types") or [FULL] * layers
    if unknown := sorted(set(map(str, kinds)) - {FULL, SLIDING}):
        raise ModelError(fields.path, f"layer_types {unknown} are not supported")
    if len(kinds) != layers:
        raise ModelError(fields.path, f"layer_types names {len(kinds)} layers of {layers}")
    said = block.values.get("causal", fields.values.get("is_causal"))
    window = fields.whole("sliding_window") if SLIDING in kinds else None
    reaches = tuple(
        Reach(window if kind == SLIDING else None, kind == SLIDING if said is None else bool(said))
        for kind in kinds
    )
    return () if set(reaches) == {Reach()} else reaches


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
