"""One rank's share of Kimi-K2.6: its sizes, what a step of it reads, and that it can be timed."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
import torch

from ddtree.cli import main
from ddtree.config import Experts, Latent, SigmoidRouting
from ddtree.layers.routing import SigmoidRouter
from ddtree.models.dflash import drafter_shapes, misfit
from ddtree.models.errors import ModelError
from ddtree.models.hf_config import target_shape
from ddtree.models.llama import Llama, target_shapes
from ddtree.ops.backend import kernels_everywhere
from ddtree.stepbench.floor import Read, floor
from ddtree.stepbench.measure import Bench, random_models
from ddtree.stepbench.routing import count_hits, fair, routed
from ddtree.stepbench.shapes import PAIRS, Pair
from tests.runtime.models.kimi_config import SEEING

KIMI = PAIRS["kimi-k2.6"]
CPU = torch.device("cpu")


def small() -> Pair:
    """The same, of 64 features and 12 experts."""
    target = replace(
        KIMI.target,
        vocab_size=256,
        hidden_size=64,
        intermediate_size=96,
        num_layers=3,
        num_heads=4,
        num_kv_heads=4,
        head_dim=24,
        experts=Experts(
            count=12,
            active=2,
            intermediate_size=64,
            normalised=True,
            dense_layers=(0,),
            shared_size=32,
            sigmoid=SigmoidRouting(1, 1, scaling=2.827),
        ),
        latent=Latent(rank=32, rope_dim=8, nope_dim=16, value_dim=16, query_rank=24, scale=0.2),
    )
    layers = replace(
        KIMI.drafter.layers,
        vocab_size=256,
        hidden_size=64,
        intermediate_size=96,
        num_layers=1,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
    )
    drafter = replace(
        KIMI.drafter,
        layers=layers,
        mask_token_id=255,
        target_layer_ids=(0, 2),
        reaches=KIMI.drafter.reaches[:1],
    )
    return Pair(target, drafter, int4=True)


def test_the_shape_is_that_of_the_published_config() -> None:
    published = target_shape(Path("config.json"), SEEING)
    latent = published.latent
    assert latent is not None and KIMI.target.latent is not None
    assert latent.scale == pytest.approx(KIMI.target.latent.scale, rel=1e-3)
    assert replace(KIMI.target, latent=latent) == published
    assert misfit(KIMI.drafter, KIMI.target) is None


def test_the_drafter_has_the_published_size() -> None:
    numbers = sum(prod(shape) for shape in drafter_shapes(KIMI.drafter).values())
    assert numbers * 2 / 2**30 == pytest.approx(6.48, abs=0.01)


def test_one_of_eight_ranks_holds_an_eighth_of_what_is_split() -> None:
    rank = KIMI.rank_of(8)
    shapes = target_shapes(rank.target)
    assert shapes["layers.1.mlp.experts.7.up_proj.weight"] == (256, 7168)
    assert shapes["layers.1.mlp.shared_experts.down_proj.weight"] == (7168, 256)
    assert shapes["layers.1.self_attn.q_b_proj.weight"] == (8 * 192, 1536)
    assert shapes["layers.1.self_attn.q_a_proj.weight"] == (1536, 7168)
    assert shapes["lm_head.weight"] == (20480, 7168)
    experts = sum(prod(shape) for name, shape in shapes.items() if ".experts." in name)
    others = sum(prod(shape) for name, shape in shapes.items() if ".experts." not in name)
    assert experts * 0.5625 + others * 2 == pytest.approx(76e9, rel=0.01)
    assert (rank.drafter.layers.num_heads, rank.drafter.layers.num_kv_heads) == (8, 1)
    drafted = drafter_shapes(rank.drafter)
    assert drafted["layers.5.mlp.down_proj.weight"] == (7168, 18432 // 8)
    assert drafted["fc.weight"] == (7168, 6 * 7168), "what fuses features is whole"
    assert misfit(rank.drafter, rank.target) is None
    with pytest.raises(ModelError, match="cannot be shared out to 7 ranks"):
        KIMI.rank_of(7)


def test_fewer_layers_are_read_by_the_same_drafter() -> None:
    cut = KIMI.cut(13)
    assert cut.target.num_layers == 13
    assert cut.drafter.target_layer_ids == (1, 12, 12, 12, 12, 12)


def test_the_floor_is_that_of_the_experts_that_were_read() -> None:
    """The record's own arithmetic (facts, 7): 16.9 GB at nine nodes with its copies whole."""
    experts = KIMI.target.experts
    assert experts is not None
    sizes = {"batch": 1, "context": 0, "itemsize": 2}
    rank = KIMI.rank_of(8).target
    least = floor(rank, None, **sizes, read=Read(fair(experts, 9), int4=True))
    assert least.experts == pytest.approx(60 * 66.2 * 3 * 7168 * 256 * 0.5625, rel=0.002)
    assert least.total == pytest.approx(16.9e9, rel=0.01)
    alone = floor(rank, None, **sizes, read=Read(8, int4=True))
    assert alone.total == pytest.approx(6.0e9, rel=0.01)


def test_experts_are_made_int4_where_kernels_read_them() -> None:
    with kernels_everywhere():
        packed = random_models(small(), torch.float32, CPU)
    assert Bench(packed, batch=1, context=8).int4
    assert not Bench(random_models(small(), torch.float32, CPU), batch=1, context=8).int4


def test_experts_are_counted_as_the_routers_choose_them() -> None:
    target = random_models(small(), torch.float32, CPU).target
    assert isinstance(target, Llama)
    mixture = target.get_submodule("layers.1.mlp")
    x = torch.randn(1, 40, 64, generator=torch.Generator().manual_seed(1))

    def forward() -> None:
        for index in (1, 2):
            target.get_submodule(f"layers.{index}.mlp")(x, x)

    wanted = [len(mixture.router(x)[0].unique())]  # type: ignore[operator]
    hits = count_hits(target, forward)
    assert hits is not None
    assert wanted[0] in (hits.least, hits.most)
    assert hits.fair == pytest.approx(12 * (1 - (10 / 12) ** 40))
    with routed(target, "skewed"):
        skewed = count_hits(target, forward)
    assert skewed is not None and skewed.mean < hits.mean
    assert count_hits(target, forward) == hits, "the routers are as before"


def test_nodes_that_share_a_token_draw_their_experts_apart() -> None:
    with torch.inference_mode():
        bench = Bench(random_models(small(), torch.float32, CPU), batch=1, context=0)
        alike = torch.full((1, 13), 7)
        embedded = bench.target.embed(alike)  # what a benchmark's nodes have of their own is in it
        router = bench.target.get_submodule("layers.1.mlp.router")
        assert isinstance(router, SigmoidRouter)

        def of(x: torch.Tensor) -> int:
            return len(set(router(x)[0].flatten().tolist()))

        assert of(bench.target.embedding[alike]) == 2
        assert of(embedded) > 0.75 * fair(router.experts, 13)


def test_a_rank_is_timed_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PAIRS, "small-kimi", small())
    out = tmp_path / "rank.json"
    argv = ["bench", "step", "--model", "small-kimi", "--rank-of", "2", "--layers", "2"]
    cases = ["--budget", "0,8,12", "--context", "20", "--repeats", "1", "--json", str(out)]
    assert main([*argv, *cases, "--dtype", "float32"]) == 0
    said = capsys.readouterr().out
    assert "in a verify 5 all-reduces of 256 bytes a token are not in these times" in said
    assert "experts drawn skewed:" in said
    document = json.loads(out.read_text())
    assert (document["rank_of"], document["layers"]) == (2, 2)
    assert document["pair"] == "small-kimi, 2 layers", "which no one takes for the model"
    assert document["absent"]["all_reduces_a_verify"] == 5
    for steps in (document["steps"], document["skewed_steps"]):
        assert [row["case"]["budget"] for row in steps] == [0, 8, 12]
        for row in steps:
            assert set(row["parts_ms"]) == {"attention", "routing", "feed_forward", "head"}
            assert row["hits"]["most"] <= min(12, 2 * (row["case"]["budget"] + 1))
            assert row["ratio"] > 0
    assert document["steps"][0]["hits"]["mean"] == 2


@pytest.mark.parametrize("argv", [["--rank-of", "0"], ["--layers", "0"]], ids=str)
def test_no_rank_and_no_layer_are_refused(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "step", "--model", "kimi-k2.6", *argv]) == 2
    assert "count from 1" in capsys.readouterr().err


def test_ranks_that_do_not_divide_are_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "step", "--model", "kimi-k2.6", "--rank-of", "7"]) == 3
    assert "cannot be shared out to 7 ranks" in capsys.readouterr().err
