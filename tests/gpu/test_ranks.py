"""Two GPUs share one model over NCCL, its sums captured with the step, and answer as one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runtime.engine.pairs import FAMILIES, opened, write_drafter, write_random
from tests.runtime.engine.test_ranks import tokens

WIDE = {
    "hidden_size": 128,
    "head_dim": 32,
    "intermediate_size": 256,
    "max_position_embeddings": 512,
}
EXPERTS = {"moe_intermediate_size": 64}
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices"),
]


@pytest.mark.parametrize("graphs", ["auto", "off"])
@pytest.mark.parametrize(
    ("family", "shared"),
    [
        ("llama", {"tp": 2}),
        ("qwen3", {"tp": 2}),
        ("qwen3_moe", {"tp": 2}),
        ("qwen3_moe", {"ep": 2}),
    ],
)
def test_two_gpus_answer_token_for_token_as_one(
    family: str, shared: dict[str, Any], graphs: str, tmp_path: Path
) -> None:
    model = write_random(tmp_path / "m", FAMILIES[family] | WIDE | EXPERTS)
    drafter = write_drafter(tmp_path / "d", **WIDE)
    where: dict[str, Any] = {"device": "cuda", "page_size": 16, "prefill_chunk": 16}
    with opened(model, drafter, **where, graphs=graphs) as alone:
        wanted = tokens(alone)
    with opened(model, drafter, **where, **shared, graphs=graphs) as engine:
        assert tokens(engine) == wanted
        assert engine.device == "cuda:0"
