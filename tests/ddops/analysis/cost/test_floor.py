"""Bytes and work that a step cannot avoid, against figures known from elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddops.analysis.cost import floor
from ddops.analysis.cost.catalogue import processor, recognised, target
from ddops.errors import UsageError

KIMI = target("kimi-k2.6")


def test_the_dense_parts_of_kimi_are_four_and_a_half_gigabytes_a_gpu() -> None:
    assert floor.dense_bytes(KIMI, 8) / floor.GB == pytest.approx(4.54, abs=0.01)


def test_one_gpu_reads_every_weight_once() -> None:
    """8.19e9 parameters, less the embedding that is not read, and norms."""
    weights = floor.dense_bytes(target("qwen3-8b"), 1) / 2
    assert weights == pytest.approx(8.19e9 - 151936 * 4096, rel=1e-3)
    assert floor.dense_bytes(target("smollm2-135m"), 1) / 2 == pytest.approx(134.5e6, rel=1e-3)


def test_a_cached_position_of_kimi_is_whole_on_every_gpu() -> None:
    assert floor.read(KIMI, 8, 1, 1).cache == floor.read(KIMI, 1, 1, 1).cache == 70272


def test_a_cached_position_is_split_by_heads_until_there_is_one_a_gpu() -> None:
    model = target("qwen3-8b")
    whole = floor.read(model, 1, 1, 1).cache
    assert whole == 147456
    assert [floor.read(model, n, 1, 1).cache for n in (8, 16)] == [whole / 8] * 2


def test_all_of_kimi_is_as_large_as_its_checkpoint() -> None:
    """554.3 GiB on disk with the vision tower; the drafter apart."""
    assert KIMI.drafter_gb is not None
    whole = floor.held(KIMI, 1, 0) / floor.GB - KIMI.drafter_gb
    assert whole == pytest.approx(554.3 * 2**30 / floor.GB, rel=0.005)


def test_one_token_touches_its_own_experts_and_many_touch_all() -> None:
    assert floor.touched(KIMI, 1) == pytest.approx(8)
    assert floor.touched(KIMI, 10_000) == pytest.approx(384)
    assert floor.touched(target("qwen3-8b"), 9) == 0


@given(st.integers(1, 2000), st.integers(1, 200))
def test_more_tokens_never_touch_fewer_experts_nor_more_than_they_pick(m: int, more: int) -> None:
    few, many = floor.touched(KIMI, m), floor.touched(KIMI, m + more)
    assert few <= many <= min(384.0, 8 * (m + more) + 1e-9)


def test_two_operations_a_weight_and_token() -> None:
    model = target("qwen3-8b")
    assert floor.flops(model, 1, 3) == pytest.approx(3 * floor.dense_bytes(model, 1))


def test_a_gpu_is_recognised_by_what_its_driver_calls_it() -> None:
    assert recognised("NVIDIA H200") == processor("h200")
    assert recognised("NVIDIA RTX PRO 6000 Blackwell Server Edition") == processor("pro6000")
    assert recognised("GeForce 256") is None


@pytest.mark.parametrize(("read", "name"), [(target, "kimi-k2.5"), (processor, "h2000")])
def test_an_unknown_name_is_told_its_neighbour(read: object, name: str) -> None:
    assert callable(read)
    with pytest.raises(UsageError, match=name) as told:
        read(name)
    assert "did you mean" in (told.value.hint or "")
