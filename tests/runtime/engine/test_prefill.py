"""Prefill: what it pads, and what warming up leaves behind."""

from __future__ import annotations

import pytest
import torch

from ddtree.engine import prefill as subject
from ddtree.engine.prefill import fixed_seconds, padded_length, warm
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


def test_on_a_cpu_a_prefill_costs_nothing_beyond_its_tokens() -> None:
    with running(configured("ddtree", 8, "tiny")) as engine:
        assert fixed_seconds(engine._runner.models, engine._runner.pools) == 0.0


def test_the_price_of_a_prefill_is_that_of_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(configured("ddtree", 8, "tiny")) as engine:
        models, pools = engine._runner.models, engine._runner.pools
        took = iter([9.0, 0.3, 0.1, 0.2, 0.3])  # the first compiles
        clock = [0.0]

        def rehearse(count: int, batch: int, *_: object) -> None:
            assert (count, batch) == (16, 1)
            clock[0] += next(took)

        monkeypatch.setattr(models.target, "device", torch.device("cuda"))
        monkeypatch.setattr(subject, "_rehearse", rehearse)
        monkeypatch.setattr("ddtree.engine.prefill.time.perf_counter", lambda: clock[0])
        assert fixed_seconds(models, pools) == pytest.approx(0.3)
        monkeypatch.undo()
