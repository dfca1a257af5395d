"""config.json's rope keys as a theta and a scaling; both spellings of the field.

transformers 5 has one object `rope_parameters`; before, `rope_theta` stood beside `rope_scaling`.
"""

from __future__ import annotations

import math
from typing import Literal

from ddtree.config import RopeScaling
from ddtree.models.errors import ModelError
from ddtree.models.fields import Fields

OWNER = Literal["target", "drafter"]
KINDS = ("default", "linear", "llama3", "yarn")


def rope_theta(fields: Fields) -> float:
    own = fields.inner("rope_parameters")
    return own.number("rope_theta", fields.number("rope_theta", 10000.0))


def rope_scaling(fields: Fields, owner: OWNER) -> RopeScaling | None:
    """None where nothing is stretched. Raises ModelError for a kind that is not known.

    A drafter's `mscale` and `mscale_all_dim` are not looked at: they belong to the attention of
    its target. Kimi-K2.5's drafter carries both, equal, and was trained with the plain factor
    0.1 ln(64) + 1; read as a target's they would give 1 and cost accept.
    """
    key, own = _object(fields)
    kind = own.values.get("rope_type", own.values.get("type", "default"))
    if kind not in KINDS:
        raise ModelError(fields.path, f"{key}: rope scaling {kind!r} is not supported")
    if own.values.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(fields.path, f"{key}: partial_rotary_factor is not supported")
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling("linear", own.number("factor"))
    longest = fields.whole("max_position_embeddings")
    trained = own.whole("original_max_position_embeddings", longest)
    if kind == "llama3":
        slow, fast = own.number("low_freq_factor"), own.number("high_freq_factor")
        if slow >= fast:
            raise ModelError(fields.path, f"{key}: low_freq_factor must be below high_freq_factor")
        return RopeScaling("llama3", own.number("factor"), trained, slow, fast)
    factor = own.number("factor", longest / trained)
    return RopeScaling(
        "yarn",
        factor,
        trained,
        slow=own.number("beta_slow", 1.0),
        fast=own.number("beta_fast", 32.0),
        whole_pairs=bool(own.values.get("truncate", True)),
        amplitude=_attention_factor(own, factor, owner),
    )


def score_factor(fields: Fields) -> float:
    """What DeepSeek multiplies the scores of latent attention by: YaRN's factor, squared.

    The published models' own code; 1 where `mscale_all_dim` is absent or 0.
    """
    _, own = _object(fields)
    weight = own.values.get("mscale_all_dim")
    if not weight or own.values.get("rope_type", own.values.get("type")) == "default":
        return 1.0
    return yarn_amplitude(own.number("factor"), own.number("mscale_all_dim")) ** 2


def yarn_amplitude(factor: float, weight: float = 1.0) -> float:
    """YaRN's attention factor (arXiv 2309.00071, section 3.4)."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def _attention_factor(own: Fields, factor: float, owner: OWNER) -> float:
    for key in ("attention_factor", "attn_factor"):
        if own.values.get(key) is not None:
            return own.number(key)
    scales = own.values.get("mscale"), own.values.get("mscale_all_dim")
    if owner == "drafter" or not all(scales):
        return yarn_amplitude(factor)
    above, below = own.number("mscale"), own.number("mscale_all_dim")
    return yarn_amplitude(factor, above) / yarn_amplitude(factor, below)


def _object(fields: Fields) -> tuple[str, Fields]:
    """The object that names a kind, or an empty one."""
    for key in ("rope_parameters", "rope_scaling"):
        own = fields.inner(key)
        if "rope_type" in own.values or "type" in own.values:
            return key, own
    return "rope_scaling", Fields(fields.path, {})
