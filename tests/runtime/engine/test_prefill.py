"""Prefill: what it pads, and what warming up leaves behind."""

from __future__ import annotations

import pytest
import torch

from ddtree.engine import prefill as subject
from ddtree.engine.prefill import padded_length, warm
from tests.runtime.engine.asking import ask, requests, running, tokens_of
from tests.runtime.engine.asking import config as configured


def test_a_forward_is_padded_on_cuda_only() -> None:
    lengths = [1, 15, 16, 17, 512]
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    assert [padded_length(length, cuda) for length in lengths] == [16, 16, 16, 32, 512]
    assert [padded_length(length, cpu) for length in lengths] == lengths


def test_padding_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = configured("ddtree", 8, "tiny", kv_tokens=120)
    plain = tokens_of(wanted, requests())
    lengths: list[int] = []

    def padded(new: int, _: torch.device) -> int:
        lengths.append(-(-new // 16) * 16)
        return lengths[-1]

    monkeypatch.setattr(subject, "padded_length", padded)
    assert tokens_of(wanted, requests()) == plain
    assert set(lengths) == {16}


def test_warming_up_touches_no_page_that_a_sequence_can_have() -> None:
    with running(configured("ddtree", 8, "tiny")) as engine:
        models, pools = engine._runner.models, engine._runner.pools
        assert pools.drafter is not None
        before = [pool.kv.clone() for pool in (pools.target, pools.drafter)]
        with torch.inference_mode():
            warm(models, pools, most=40)
        for pool, kv in zip((pools.target, pools.drafter), before, strict=True):
            assert torch.equal(pool.kv[:, :, pools.page_size :], kv[:, :, pools.page_size :])
            assert not torch.equal(pool.kv, kv)
        assert tokens_of(configured(), requests()) == [a.tokens for a in ask(engine, requests())]
