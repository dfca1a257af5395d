"""How much of a GPU is needed, against arithmetic done by hand."""

from __future__ import annotations

import pytest

from ddops.rules.memory import GIB, need
from ddops.spec.load import load_box

KIMI = load_box("b300").deployment
B300 = 268.6  # GiB


def test_weights_are_shared_out_and_latent_keys_are_not() -> None:
    found = need(KIMI, KIMI.model.shape, size=560 * GIB, gpu=B300, use=8)
    assert found.weights == 70.0
    assert found.cache == pytest.approx(65536 * 70272 / GIB)  # 4.3 GiB on every GPU


def test_ordinary_keys_are_shared_out_by_heads() -> None:
    assert KIMI.model.shape
    shape = KIMI.model.shape.model_copy(update={"attention": "gqa"})
    found = need(KIMI, shape, size=None, gpu=B300, use=8)
    assert found.weights is None
    assert found.cache == pytest.approx(65536 * 70272 / 8 / GIB)


def test_the_reserve_holds_a_prefill_graphs_and_a_share_for_every_gpu() -> None:
    """0.5 + 1.5 MiB x 16384 + 1 + 2 MiB x 128 + 1.5, in GiB."""
    found = need(KIMI, KIMI.model.shape, size=None, gpu=B300, use=8)
    assert found.reserve == pytest.approx(0.5 + 24 + 1 + 0.25 + 1.5)
    eager = need(
        KIMI.model_copy(update={"graphs": "off"}), KIMI.model.shape, size=None, gpu=B300, use=8
    )
    assert eager.reserve == pytest.approx(0.5 + 24 + 1)


def test_a_large_gpu_keeps_ten_gib_free_at_least() -> None:
    found = need(load_box("local").deployment, None, size=None, gpu=80.0, use=1)
    assert found.cache is None
    assert found.reserve == pytest.approx(0.5 + 12 + 0.125 + 2 * 8 / 1024)
    limits = KIMI.limits.model_copy(update={"prefill_chunk": 2048})
    small = need(KIMI.model_copy(update={"limits": limits}), None, size=None, gpu=80.0, use=1)
    assert small.reserve == 10.0


def test_without_a_gpu_nothing_is_known() -> None:
    assert need(KIMI, KIMI.model.shape, size=GIB, gpu=None, use=0).reserve is None
