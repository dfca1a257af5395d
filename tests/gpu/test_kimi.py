"""Latents, sigmoid routing and INT4 experts in whole steps: replayed, eager, one by one alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ddtree.config import EngineConfig
from ddtree.speculate.seam import Models
from tests.gpu.engine import ask, running, small_kimi

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def models() -> Models:
    return small_kimi("cuda", torch.bfloat16)


@pytest.mark.parametrize("budget", [1, 8, 12, 16, 32, 64])
def test_replay_equals_eager_and_autoregressive_in_bfloat16(models: Models, budget: int) -> None:
    """The field record's budgets: there 12 and 16 crashed in graphs, and 32 made garbage."""
    config = EngineConfig(
        model="random",
        mode="ddtree",
        drafter="random",
        budget=budget,
        context_length=256,
        max_running_requests=8,
    )
    answers = []
    for other in (config, replace(config, graphs="off"), replace(config, mode="ar")):
        with running(other, models) as engine:
            answers.append(ask(engine, range(12)))
            if other is config:
                assert engine.stats().speculation.accepted > 0
    replayed, eager, plain = answers
    assert replayed == eager
    assert replayed == plain
