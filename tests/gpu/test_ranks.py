"""Two GPUs share one model over NCCL, its sums captured with the step, and answer as one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ddtree.models.hf_config import target_shape
from tests.runtime.engine.mixed import tokens
from tests.runtime.engine.pairs import FAMILIES, VOCAB, opened, write_drafter, write_random

WIDE = {
    "hidden_size": 128,
    "head_dim": 32,
    "intermediate_size": 256,
    "max_position_embeddings": 512,
}
EXPERTS = {"moe_intermediate_size": 64}
LATENTS = {
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
}
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
        ("deepseek_v3", {"tp": 2}),
        ("deepseek_v3", {"ep": 2}),
    ],
)
def test_two_gpus_answer_token_for_token_as_one(
    family: str, shared: dict[str, Any], graphs: str, tmp_path: Path
) -> None:
    latents = LATENTS if family == "deepseek_v3" else {}
    model = write_random(tmp_path / "m", FAMILIES[family] | WIDE | EXPERTS | latents)
    assert_alike(model, write_drafter(tmp_path / "d", **WIDE), graphs, shared)


def test_int4_experts_of_two_gpus_answer_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("compressed_tensors", reason="what packs INT4 is not here")
    from tests.runtime.models import test_deepseek as kimi

    monkeypatch.setitem(kimi.CONFIG["text_config"], "vocab_size", VOCAB)
    monkeypatch.setattr(kimi, "SHAPE", target_shape(tmp_path, kimi.CONFIG))
    model = kimi.write(tmp_path / "m", kimi.published()[0])
    drafter = write_drafter(tmp_path / "d", **WIDE | {"hidden_size": 64})
    assert_alike(model, drafter, "auto", {"ep": 2})


def assert_alike(model: Path, drafter: Path, graphs: str, shared: dict[str, Any]) -> None:
    where: dict[str, Any] = {"device": "cuda", "page_size": 16, "prefill_chunk": 16}
    with opened(model, drafter, **where, graphs=graphs) as alone:
        wanted = tokens(alone)
    with opened(model, drafter, **where, **shared, graphs=graphs) as engine:
        assert tokens(engine) == wanted
        assert engine.device == "cuda:0"
