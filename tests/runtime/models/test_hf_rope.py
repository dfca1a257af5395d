"""Rope scaling read from a config, against transformers' rotary embedding of the same config."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from ddtree.layers.rotary import Rotary, frequencies
from ddtree.models.fields import Fields
from ddtree.models.hf_rope import rope_scaling, rope_theta
from tests.runtime.models.session import CPU

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
KIMI = {  # of Kimi-K2.5's drafter
    "rope_type": "yarn",
    "factor": 64.0,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
KINDS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 2.5},
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn, factor from the lengths": {k: v for k, v in YARN.items() if k != "factor"}
    | {"factor": None},
    "yarn, ends not whole": YARN | {"truncate": False, "beta_fast": 20.0, "beta_slow": 2.0},
    "yarn, attention factor": YARN | {"attention_factor": 1.3},
    "yarn, mscale": YARN | {"mscale": 0.707, "mscale_all_dim": 1.0},
    "yarn, equal mscales": KIMI,
}


def config(rope: dict[str, Any]) -> dict[str, Any]:
    return {"max_position_embeddings": 16384, "rope_parameters": rope | {"rope_theta": 5e4}}


@pytest.mark.parametrize("kind", KINDS)
def test_angles_are_transformers_angles(kind: str) -> None:
    from transformers import Qwen3Config  # seconds, which who collects tests has no use for
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

    values = config(KINDS[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs: Any = Qwen3RotaryEmbedding(Qwen3Config(head_dim=128, **values))
    fields = Fields(Path("config.json"), values)
    scaling = rope_scaling(fields, "target")
    ours = frequencies(128, rope_theta(fields), scaling)
    torch.testing.assert_close(ours, theirs.inv_freq, rtol=1e-6, atol=0)
    positions = torch.tensor([[0, 1, 700, 16000]])
    wanted = theirs(torch.empty(0), positions)
    angles = Rotary(128, rope_theta(fields), CPU, scaling)(positions, torch.float32)
    sin = angles.sin[:, :, 0] * torch.cat((-torch.ones(64), torch.ones(64)))
    for found, theirs_of_it in ((angles.cos[:, :, 0], wanted[0]), (sin, wanted[1])):
        torch.testing.assert_close(found, theirs_of_it, rtol=0, atol=5e-3)


def test_a_drafter_has_the_plain_attention_factor_whatever_its_mscales_say() -> None:
    fields = Fields(Path("config.json"), config(KIMI))
    target, drafter = rope_scaling(fields, "target"), rope_scaling(fields, "drafter")
    assert target is not None
    assert drafter is not None
    assert target.amplitude == 1.0
    assert drafter.amplitude == pytest.approx(0.1 * math.log(64) + 1)
    for key in ("attention_factor", "attn_factor"):
        said = Fields(Path("config.json"), config(KIMI | {key: 1.25}))
        scaling = rope_scaling(said, "drafter")
        assert scaling is not None
        assert scaling.amplitude == 1.25


def test_the_older_spelling_says_the_same() -> None:
    old = {"max_position_embeddings": 131072, "rope_theta": 5e5, "rope_scaling": LLAMA3}
    new = {"max_position_embeddings": 131072, "rope_parameters": LLAMA3 | {"rope_theta": 5e5}}
    read = [Fields(Path("config.json"), values) for values in (old, new)]
    assert rope_scaling(read[0], "target") == rope_scaling(read[1], "target")
    assert [rope_theta(fields) for fields in read] == [5e5, 5e5]
