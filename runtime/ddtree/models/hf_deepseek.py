"""DeepSeek-V3's own keys of a config.json (Kimi-K2's too): latent attention and its mixture."""

from __future__ import annotations

from ddtree.config import Experts, Latent, SigmoidRouting
from ddtree.models.errors import ModelError
from ddtree.models.fields import Fields
from ddtree.models.hf_rope import score_factor
from ddtree.ops.routing.reference import BEST

# Keys that say which variant it is, and the one that is known here; absent, that one is meant
KNOWN = {"scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1}


def latent(fields: Fields) -> Latent:
    """Raises ModelError."""
    nope, rope = fields.whole("qk_nope_head_dim"), fields.whole("qk_rope_head_dim")
    return Latent(
        rank=fields.whole("kv_lora_rank"),
        rope_dim=rope,
        nope_dim=nope,
        value_dim=fields.whole("v_head_dim"),
        query_rank=_count(fields, "q_lora_rank") or None,
        scale=(nope + rope) ** -0.5 * score_factor(fields),
        interleaved=bool(fields.values.get("rope_interleave", True)),
    )


def sigmoid_experts(fields: Fields) -> Experts:
    """Raises ModelError, also for routing that could not choose as many as it must."""
    for key, known in KNOWN.items():
        if (found := fields.values.get(key, known)) != known:
            raise ModelError(fields.path, f"{key} {found!r} is not supported, only {known!r}")
    count, active = fields.whole("n_routed_experts"), fields.whole("num_experts_per_tok")
    groups, chosen = fields.whole("n_group", 1), fields.whole("topk_group", 1)
    if count % groups or chosen > groups or active > count // groups * chosen:
        raise ModelError(
            fields.path, f"{active} of {count} experts cannot come from {chosen} of {groups} groups"
        )
    if chosen < groups and count // groups < BEST:
        raise ModelError(fields.path, f"{groups} groups of {count} experts leave less than {BEST}")
    one = fields.whole("moe_intermediate_size")
    return Experts(
        count=count,
        active=active,
        intermediate_size=one,
        normalised=fields.flag("norm_topk_prob"),
        dense_layers=tuple(range(_count(fields, "first_k_dense_replace"))),
        shared_size=one * _count(fields, "n_shared_experts"),
        sigmoid=SigmoidRouting(groups, chosen, fields.number("routed_scaling_factor")),
    )


def _count(fields: Fields, key: str) -> int:
    """0 too, and where nothing is said."""
    return fields.whole(key) if fields.values.get(key) else 0
