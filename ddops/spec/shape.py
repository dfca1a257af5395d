"""What rules need to know of a model and of a drafter, as their own `config.json` says it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ddops.spec.base import Word

Attention = Literal["gqa", "mla"]
Yarn = Literal["none", "plain", "mscale", "attn_factor"]
"""Which keys of a drafter scale its attention: decides what engines make of it."""
Method = Literal["dflash", "eagle3"]


class Shape(Word):
    """A target. Pinned in an inventory it lets a plan be made before the first byte is there."""

    family: str  # `model_type`
    attention: Attention
    kv_bytes_per_token: int = Field(gt=0)  # all layers, 16 bits a value, not sharded
    max_context: int = Field(gt=0)  # tokens
    experts: int = Field(default=0, ge=0)  # routed; 0: dense
    vocabulary: int = Field(default=0, ge=0)  # tokens; 0: not said
    copied_bytes: int = Field(default=0, ge=0)  # whole on every GPU: latents' ways down, routers
    vision: bool = False
    remote_code: bool = False  # ships Python of its own (`auto_map`)


class DrafterShape(Word):
    method: Method
    depth: int | None = Field(default=None, ge=1)  # positions of one draft; block size less one
    yarn: Yarn = "none"
    kv_bytes_per_token: int | None = Field(default=None, gt=0)  # all layers, 16 bits a value
    copied_bytes: int = Field(default=0, ge=0)  # whole on every GPU: what fuses the features
