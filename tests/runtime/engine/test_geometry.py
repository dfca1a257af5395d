"""How large steps and prefills are under a configuration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ddtree.config import EngineConfig
from ddtree.engine.geometry import prefill_chunk
from ddtree.stepbench.shapes import PAIRS


def models(pair: str, device: str) -> Any:
    return SimpleNamespace(
        target=SimpleNamespace(shape=PAIRS[pair].target, device=torch.device(device))
    )


@pytest.mark.parametrize(
    ("pair", "device", "tokens"),
    [
        ("smollm2-135m", "cuda", 2048),
        ("smollm2-135m", "cpu", 512),
        ("qwen3-8b", "cuda", 512),
        ("kimi-k2.6", "cuda", 512),
    ],
)
def test_only_small_targets_on_cuda_take_long_prefills(pair: str, device: str, tokens: int) -> None:
    assert prefill_chunk(EngineConfig("m"), models(pair, device)) == tokens


def test_a_chunk_that_was_asked_for_is_kept() -> None:
    assert prefill_chunk(EngineConfig("m", prefill_chunk=64), models("qwen3-8b", "cuda")) == 64
