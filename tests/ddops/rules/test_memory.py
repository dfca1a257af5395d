"""How much of a GPU is needed, against arithmetic done by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.rules.memory import GIB, Models, Need, need
from ddops.spec.deployment import Deployment
from ddops.spec.load import load_box

KIMI = load_box("b300").deployment
OWN = load_box("b300-ddtree").deployment
B300, PRO_6000 = 268.6, 95.6  # GiB
SIZES = (554 * GIB, 6 * GIB)


def needed(
    deployment: Deployment,
    *,
    sizes: tuple[int | None, int | None] = (None, None),
    gpu: float | None = B300,
    use: int = 8,
    **shape: Any,
) -> Need:
    of = deployment.model.shape
    models = Models(
        shape=of.model_copy(update=shape) if of else None,
        drafter=deployment.decoding.drafter_shape,
        sizes=sizes,
    )
    return need(deployment, models, gpu=gpu, use=use)


def test_weights_are_shared_out_and_latent_keys_are_not() -> None:
    found = needed(KIMI, sizes=SIZES)
    assert (found.weights, found.of_drafter) == (70.0, 0.75)
    assert found.cache == pytest.approx(65536 * 70272 / GIB)  # 4.3 GiB on every GPU


def test_ordinary_keys_are_shared_out_by_heads() -> None:
    found = needed(KIMI, attention="gqa")
    assert found.weights is None
    assert found.cache == pytest.approx(65536 * 70272 / 8 / GIB)


def test_the_reserve_holds_a_prefill_graphs_and_a_share_for_every_gpu() -> None:
    """0.5 + 1.5 MiB x 16384 + 1 + 2 MiB x 128 + 1.5, in GiB."""
    assert needed(KIMI).reserve == pytest.approx(0.5 + 24 + 1 + 0.25 + 1.5)
    eager = KIMI.model_copy(update={"graphs": "off"})
    assert needed(eager).reserve == pytest.approx(0.5 + 24 + 1)


def test_a_large_gpu_keeps_ten_gib_free_at_least() -> None:
    local = load_box("local").deployment.model_copy(update={"engine": "sglang"})
    found = needed(local, gpu=80.0, use=1)
    assert found.cache is None
    assert found.reserve == pytest.approx(0.5 + 12 + 0.125 + 2 * 8 / 1024)
    limits = KIMI.limits.model_copy(update={"prefill_chunk": 2048})
    assert needed(KIMI.model_copy(update={"limits": limits}), gpu=80.0, use=1).reserve == 10.0


def test_a_rank_of_the_bundled_engine_has_its_share_and_copies_of_what_is_not_shared() -> None:
    found = needed(OWN, sizes=SIZES)
    copies, fusion = (size * 7 / 8 / GIB for size in (2177236992, 616562688))
    assert found.of_drafter == pytest.approx(6 / 8 + fusion)
    assert found.weights == pytest.approx(554 / 8 + copies + 6 / 8 + fusion)


def test_its_cache_is_for_all_requests_with_the_drafters_keys_beside() -> None:
    found = needed(OWN)
    assert (found.cache_tokens, found.cache) == (2**20, 2**20 * (70272 + 24576 / 8) / GIB)
    limits = OWN.limits.model_copy(update={"kv_tokens": None})
    assert needed(OWN.model_copy(update={"limits": limits})).cache_tokens == 128 * 65536


def test_its_reserve_grows_with_the_nodes_that_are_judged_at_once() -> None:
    """Of 128 requests: 17 nodes and 8 drafted positions, 163,840 logits each."""
    logits = 128 * (17 + 8) * 163840 * 6 / GIB
    assert needed(OWN).reserve == pytest.approx(3 + 1 + logits)


@pytest.mark.parametrize(("name", "gpu"), [("b300-ddtree", B300), ("pro6000-ddtree", PRO_6000)])
def test_what_is_said_to_fit_fills_the_gpu_and_no_token_more(name: str, gpu: float) -> None:
    deployment = load_box(name).deployment
    found = needed(deployment, sizes=SIZES, gpu=gpu)
    assert found.fits_tokens is not None and found.weights and found.reserve
    assert found.fits_tokens >= (deployment.limits.kv_tokens or 0)  # as shipped it fits
    each = 70272 + 24576 / 8
    taken = found.weights + found.reserve + found.fits_tokens * each / GIB
    assert 0 <= gpu - taken < 1024 * each / GIB


def test_without_a_gpu_nothing_is_known() -> None:
    assert needed(KIMI, sizes=SIZES, gpu=None, use=0) == Need()
