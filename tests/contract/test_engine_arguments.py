"""Whatever ddops can deploy, the engine's own command line understands, value for value."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ddtree.cli
from ddops.engines.base import Paths
from ddops.engines.ddtree import DDTREE
from ddops.spec.argument import Argument
from ddops.spec.deployment import Decoding, Deployment, Limits, Mode, Model, Serving, Weights
from ddtree.config import EngineConfig
from ddtree.config import Mode as EngineMode
from tests.ddops.gpu_boxes import advised, box_of

BUNDLED = Weights(source="bundled")

deployments = st.builds(
    Deployment,
    engine=st.just("ddtree"),
    model=st.just(Model(name="some-model", weights=Weights(source="file:m.gguf"))),
    decoding=st.builds(
        Decoding,
        mode=st.sampled_from(get_args(Mode)),
        budget=st.integers(1, 256),
        drafter=st.sampled_from([BUNDLED, "prompt-lookup", Weights(source="file:drafter")]),
    ),
    limits=st.builds(
        Limits,
        context_length=st.integers(16, 10**6),
        max_running_requests=st.integers(1, 1000),
        kv_tokens=st.none() | st.integers(16, 10**9),
        prefill_chunk=st.none() | st.integers(1, 10**5),
        prefix_cache=st.booleans(),
    ),
    serving=st.builds(Serving, port=st.integers(1, 65535)),
    dtype=st.sampled_from(["auto", "float32", "bfloat16"]),
    device=st.sampled_from(["auto", "cpu", "cuda"]),
    graphs=st.sampled_from(["auto", "off"]),
    threads=st.none() | st.integers(1, 512),
)


def understood(deployment: Deployment) -> tuple[EngineConfig, argparse.Namespace]:
    """What the engine makes of the arguments, up to the moment where it would start."""
    drafter = deployment.decoding.drafter
    there = "/box/drafter" if isinstance(drafter, Weights) and drafter != BUNDLED else None
    return parsed(DDTREE.arguments(deployment, Paths(model="/box/m.gguf", drafter=there)))


def parsed(arguments: Sequence[Argument]) -> tuple[EngineConfig, argparse.Namespace]:
    argv = DDTREE.argv("python", arguments)
    assert argv[:4] == ("python", "-m", "ddtree", "serve")
    heard: list[tuple[EngineConfig, argparse.Namespace]] = []

    def serve(config: EngineConfig, given: argparse.Namespace) -> int:
        heard.append((config, given))
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ddtree.cli, "_serve", serve)
        assert ddtree.cli.main(argv[3:]) == 0
    return heard[0]


@given(deployments)
def test_every_deployment_arrives_as_it_was_wished(wished: Deployment) -> None:
    config, flags = understood(wished)
    limits, decoding = wished.limits, wished.decoding
    assert config.model == "/box/m.gguf"
    assert config.mode == decoding.mode
    assert (config.dtype, config.device, config.threads) == (
        wished.dtype,
        wished.device,
        wished.threads,
    )
    assert config.graphs == wished.graphs
    assert config.context_length == limits.context_length
    assert config.max_running_requests == limits.max_running_requests
    assert config.kv_tokens == limits.kv_tokens
    assert config.prefix_cache == limits.prefix_cache
    assert config.prefill_chunk == (limits.prefill_chunk or EngineConfig.prefill_chunk)
    assert (flags.host, flags.port) == (wished.serving.address, wished.serving.port)
    assert flags.served_model_name == wished.model.name


@given(deployments.filter(lambda wished: wished.decoding.mode == "ddtree"))
def test_a_tree_has_the_budget_and_the_drafter_that_were_wished(wished: Deployment) -> None:
    config, _ = understood(wished)
    assert config.budget == wished.decoding.budget
    drafter = wished.decoding.drafter
    named = "bundled" if drafter == BUNDLED else "/box/drafter"
    assert config.drafter == (drafter if isinstance(drafter, str) else named)


@given(deployments, st.integers(1, 256))
def test_an_adaptive_budget_arrives(wished: Deployment, budget: int) -> None:
    decoding = Decoding(mode="ddtree", budget=budget, adaptive=True, drafter=BUNDLED)
    config, _ = understood(wished.model_copy(update={"decoding": decoding}))
    assert (config.adaptive, config.budget) == (True, budget)


@pytest.mark.parametrize(("machine", "tp", "ep"), [("b300", 8, 1), ("pro6000", 1, 8)])
def test_ranks_that_the_rules_ask_for_arrive(machine: str, tp: int, ep: int) -> None:
    found = advised(machine, box_of(f"{machine}-ddtree"), version="0.1.0")
    config, _ = parsed(found.arguments)
    assert (config.tp, config.ep) == (tp, ep)


def test_both_halves_know_the_same_modes() -> None:
    assert get_args(Mode) == get_args(EngineMode)
