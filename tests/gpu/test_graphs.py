"""Replayed graphs commit the tokens that eager steps commit, at every budget."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ddtree.config import EngineConfig
from ddtree.speculate.seam import Models
from tests.gpu.engine import ask, running, small_models

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BUDGETS = (1, 8, 12, 16, 32, 64, 256)


@pytest.fixture(scope="module")
def models() -> Models:
    return small_models("cuda")


@pytest.fixture(scope="module")
def plain(models: Models) -> list[list[int]]:
    """What eager decoding without a draft answers."""
    return answers(models, replace(of_budget(1), mode="ar", graphs="off"))[0]


def of_budget(budget: int) -> EngineConfig:
    return EngineConfig(
        model="random",
        mode="ddtree",
        drafter="random",
        budget=budget,
        context_length=256,
        max_running_requests=8,
    )


def answers(models: Models, config: EngineConfig) -> tuple[list[list[int]], int]:
    """Tokens of 12 requests of different lengths, and how many drafts were accepted."""
    with running(config, models) as engine:
        found = ask(engine, range(12))
    return found, engine.stats().speculation.accepted


@pytest.mark.parametrize("budget", BUDGETS)
def test_replay_equals_eager_and_autoregressive(
    models: Models, plain: list[list[int]], budget: int
) -> None:
    config = of_budget(budget)
    replayed, accepted = answers(models, config)
    eager, _ = answers(models, replace(config, graphs="off"))
    assert accepted > 0
    assert replayed == eager
    assert replayed == plain
