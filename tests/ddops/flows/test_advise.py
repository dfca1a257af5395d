"""Boxes of the record and wishes for them: whole units, line by line, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ddops.errors import CheckError, UsageError
from ddops.flows.advise import Advised, advise, ask
from ddops.flows.plan import render
from ddops.spec.box import Box
from ddops.spec.deployment import Node, Serving
from tests.ddops.gpu_boxes import advised, box_of, patched, recorded_options, seen, site

GOLDEN = Path(__file__).with_name("golden")
PATCHED = {"version": "0.5.13", "options": patched("sglang-0.5.13")}
VLLM = {"version": "0.33.0", "options": recorded_options("vllm-0.33.0")}


def chain_on_vllm(name: str) -> Box:
    return box_of(name, engine="vllm", decoding={"mode": "chain"})


def limits(**changes: Any) -> Any:
    return box_of("b300").deployment.limits.model_copy(update=changes)


def rank(number: int, engine: str = "sglang") -> Box:
    node = Node(rank=number, of=2, leader="10.0.0.1:20000")
    mode = "ddtree" if engine == "sglang" else "chain"
    return box_of("b300", engine=engine, node=node, parallel="tp", decoding={"mode": mode})


UNITS = {
    "b300-sglang": ("b300", box_of("b300"), PATCHED),
    "b300-sglang-0.5.23-chain": (
        "b300",
        box_of("b300", decoding={"mode": "chain"}),
        {"version": "0.5.23", "options": recorded_options("sglang-0.5.23")},
    ),
    "b300-vllm": ("b300", chain_on_vllm("b300"), VLLM),
    "two-b300-sglang-rank-1": ("b300", rank(1), PATCHED),
    "two-b300-vllm-rank-1": ("b300", rank(1, "vllm"), VLLM),
    "pro6000-sglang": ("pro6000", box_of("pro6000"), PATCHED),
    "pro6000-vllm": ("pro6000", chain_on_vllm("pro6000"), VLLM),
    "b300-ddtree": ("b300", box_of("b300-ddtree"), {"version": "0.1.0", "options": ""}),
    "pro6000-ddtree": ("pro6000", box_of("pro6000-ddtree"), {"version": "0.1.0", "options": ""}),
    "h200-ddtree": ("h200", box_of("h200"), {"version": "0.1.0", "options": ""}),
}


@pytest.mark.parametrize("name", UNITS)
def test_the_unit_of_a_profile_is_this_line_by_line(name: str) -> None:
    """`GOLDEN=write pytest …` writes them again: read the difference before it is committed."""
    machine, box, engine = UNITS[name]
    there, wish = site(box, **engine), box.deployment
    rendered = render(there, wish, ask(there, wish, seen(machine)))
    rendered.advised.check()
    file = GOLDEN / f"{name}.service"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(rendered.unit, "utf-8")
    assert rendered.unit.splitlines() == file.read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", UNITS)
def test_no_flag_and_no_variable_is_without_a_reason(name: str) -> None:
    machine, box, engine = UNITS[name]
    found = advised(machine, box, **engine)
    reasons = [*found.arguments, *found.settings]
    assert all(one.why and one.source and one.sure for one in reasons)


def flags(found: Advised) -> dict[str, str]:
    return {one.flag: one.value for one in found.arguments}


def refused(found: Advised) -> str:
    with pytest.raises(CheckError) as caught:
        found.check()
    assert caught.value.exit_code == 5
    return f"{caught.value.subject}\n{caught.value.detail}\n{caught.value.hint}"


def test_parallelism_follows_the_interconnect_not_the_model() -> None:
    over_nvlink = flags(advised("b300", box_of("b300"), **PATCHED))
    over_pcie = flags(advised("pro6000", box_of("pro6000"), **PATCHED))
    assert ("--tp-size" in over_nvlink, "--ep-size" in over_nvlink) == (True, False)
    assert (over_pcie["--tp-size"], over_pcie["--ep-size"]) == ("8", "8")


def test_nvls_follows_the_state_of_the_fabric() -> None:
    assert "--enable-nccl-nvls" in flags(advised("b300", box_of("b300"), **PATCHED))
    down = advised("fabric-down", box_of("b300", gpus=7), **PATCHED)
    assert "--enable-nccl-nvls" not in flags(down)
    assert ("NCCL_NVLS_ENABLE", "0") in [(one.name, one.value) for one in down.settings]
    wanted = refused(advised("fabric-down", box_of("b300", gpus=7, nvls="on"), **PATCHED))
    assert "rule `nvls-needs-fabric`" in wanted
    assert "systemctl start nvidia-fabricmanager" in wanted


@pytest.mark.parametrize("budget", [12, 16, 32])
def test_graphs_above_budget_8_are_refused_on_sm_103_with_sglang(budget: int) -> None:
    decoding = {"budget": budget}
    few = limits(max_running_requests=16)
    said = refused(advised("b300", box_of("b300", decoding=decoding, limits=few), **PATCHED))
    assert "rule `sglang-graph-wall`" in said
    assert "--override sglang-graph-wall" in said
    eager = advised("b300", box_of("b300", decoding=decoding, limits=few, graphs="off"), **PATCHED)
    eager.check()
    assert "--disable-cuda-graph" in flags(eager)


def test_an_overridden_wall_is_passed_and_stays_with_the_deployment() -> None:
    few = limits(max_running_requests=16)
    wish = box_of("b300", decoding={"budget": 16}, limits=few, overrides=("sglang-graph-wall",))
    found = advised("b300", wish, **PATCHED)
    found.check()
    assert [one.rule for one in found.advice.overridden] == ["sglang-graph-wall"]
    assert wish.deployment.overrides == ("sglang-graph-wall",)


def test_too_many_rows_for_the_mla_product_are_refused_with_the_most_that_fit() -> None:
    said = refused(
        advised("b300", box_of("b300", limits=limits(max_running_requests=134)), **PATCHED)
    )
    assert "134 requests of 9 nodes are 1206" in said
    assert "set `max_running_requests: 133`" in said


@pytest.mark.parametrize("engine", [{"version": "0.5.23", "options": ""}, VLLM])
def test_a_released_engine_has_no_draft_tree_and_says_what_has(engine: dict[str, str]) -> None:
    name = "vllm" if engine is VLLM else "sglang"
    said = refused(advised("b300", box_of("b300", engine=name), **engine))
    assert f"rule `{name}-has-no-tree`" in said
    assert "set `mode: chain` (DFlash or EAGLE3), or `engine: ddtree`" in said


def test_the_other_patch_of_sglang_counts_the_root_as_well() -> None:
    options = recorded_options("sglang-0.5.13")
    fork = {"version": "0.5.13", "options": f"{options}  --speculative-dflash-enable-ddtree\n"}
    found = flags(advised("b300", box_of("b300"), **fork))
    assert found["--speculative-algorithm"] == "DFLASH"
    assert found["--speculative-num-draft-tokens"] == "9"


def test_a_flag_that_drops_the_tree_mask_is_refused() -> None:
    wish = box_of("b300", flags={"--attention-backend": "trtllm_mla"})
    assert "rule `sglang-tree-mask`" in refused(advised("b300", wish, **PATCHED))


def test_a_flag_the_engine_does_not_have_is_refused() -> None:
    wish = box_of("b300", flags={"--cuda-graph-max-bs-decode": 8})
    said = refused(advised("b300", wish, **PATCHED))
    assert "sglang 0.5.13 has no option --cuda-graph-max-bs-decode" in said
    assert "did you mean `--cuda-graph-max-bs`?" in said


def test_one_gpu_missing_of_eight_is_refused() -> None:
    said = refused(advised("fabric-down", box_of("b300"), **PATCHED))
    assert "8 GPUs are wished, 7 answer" in said
    assert "set `gpus: 7`" in said


def test_a_gpu_cut_into_instances_is_refused() -> None:
    assert "rule `gpus-whole`" in refused(advised("mig", box_of("b300", gpus=2), **PATCHED))


def test_gpus_of_several_kinds_are_refused() -> None:
    box, mixed = box_of("b300"), seen("b300")
    first, *rest = mixed.gpus
    mixed = mixed.model_copy(
        update={"gpus": (first.model_copy(update={"name": "NVIDIA B200"}), *rest)}
    )
    assert "rule `gpus-alike`" in refused(advise(site(box, **PATCHED), box.deployment, mixed))


def test_an_unknown_gpu_gets_the_engines_defaults_and_a_note() -> None:
    box, new = box_of("b300"), seen("b300")
    gpus = tuple(one.model_copy(update={"compute_capability": "13.7"}) for one in new.gpus)
    found = advise(site(box, **PATCHED), box.deployment, new.model_copy(update={"gpus": gpus}))
    found.check()
    assert "gpu-known" in [one.rule for one in found.advice.notes]


def test_an_unknown_version_gets_no_flag_that_depends_on_one_and_a_note() -> None:
    found = advised("b300", box_of("b300"), version=None, options=patched("sglang-0.5.23"))
    assert "engine-version-known" in [one.rule for one in found.advice.notes]
    assert not [flag for flag in flags(found) if "cuda-graph" in flag]


def test_memory_that_does_not_hold_the_weights_is_refused_with_the_numbers() -> None:
    said = refused(advised("b300", box_of("b300", gpus=2), **PATCHED))
    assert "rule `memory-fits`" in said
    assert "280.0 for weights" in said


def test_more_than_the_model_was_made_for_is_refused() -> None:
    said = refused(advised("b300", box_of("b300", limits=limits(context_length=10**6)), **PATCHED))
    assert "rule `context-of-model`" in said


def test_sglang_is_never_given_a_key_that_others_could_read() -> None:
    box = box_of("b300", serving=Serving(address="0.0.0.0", api_key_file="/root/key"))
    with pytest.raises(UsageError, match="every user of the box can read it"):
        advised("b300", box, **PATCHED)


def test_the_bundled_engine_runs_a_worker_a_gpu_as_the_interconnect_has_it() -> None:
    own = {"version": "0.1.0", "options": ""}
    over_nvlink = advised("b300", box_of("b300-ddtree"), **own)
    over_pcie = advised("pro6000", box_of("pro6000-ddtree"), **own)
    for found in (over_nvlink, over_pcie):
        found.check()
    assert (flags(over_nvlink).get("--tp"), flags(over_nvlink).get("--ep")) == ("8", None)
    assert (flags(over_pcie).get("--tp"), flags(over_pcie).get("--ep")) == (None, "8")
    assert ("NCCL_NVLS_ENABLE", "1") in [(one.name, one.value) for one in over_nvlink.settings]
    assert ("NCCL_NVLS_ENABLE", "0") in [(one.name, one.value) for one in over_pcie.settings]
    asked = advised("pro6000", box_of("pro6000-ddtree", parallel="tp"), **own)
    assert flags(asked)["--tp"] == "8"


def test_a_cache_that_does_not_fit_is_refused_with_the_largest_that_does() -> None:
    own = {"version": "0.1.0", "options": ""}
    few = box_of("pro6000-ddtree").deployment.limits.model_copy(update={"kv_tokens": None})
    said = refused(advised("pro6000", box_of("pro6000-ddtree", limits=few), **own))
    assert "rule `ddtree-memory-fits`" in said
    assert "35.8 for a cache of 524288 tokens" in said
    tokens = int(said.partition("set `kv_tokens: ")[2].partition("`")[0])
    fitting = few.model_copy(update={"kv_tokens": tokens})
    advised("pro6000", box_of("pro6000-ddtree", limits=fitting), **own).check()
    more = few.model_copy(update={"kv_tokens": tokens + 1024})
    refused(advised("pro6000", box_of("pro6000-ddtree", limits=more), **own))


def test_weights_that_no_cache_is_left_beside_are_told_so() -> None:
    own = {"version": "0.1.0", "options": ""}
    said = refused(advised("pro6000", box_of("pro6000-ddtree", gpus=4), **own))
    assert "use more GPUs: weights and reserve alone are 146" in said


def test_an_engine_that_cannot_say_its_help_is_checked_against_the_nearest_release() -> None:
    found = advised("b300", box_of("b300"), version="0.5.16")
    assert found.options is not None
    assert found.options.origin == "sglang 0.5.13 (recorded)"


def test_one_engine_over_two_boxes_shards_over_the_gpus_of_both() -> None:
    leader = flags(advised("b300", rank(0), **PATCHED))
    follower = flags(advised("b300", rank(1), **PATCHED))
    assert (leader["--tp-size"], leader["--nnodes"], leader["--node-rank"]) == ("16", "2", "0")
    assert follower == {**leader, "--node-rank": "1"}
    assert follower["--dist-init-addr"] == "10.0.0.1:20000"
    assert "--headless" not in flags(advised("b300", rank(0, "vllm"), **VLLM))
    assert "--headless" in flags(advised("b300", rank(1, "vllm"), **VLLM))


def test_between_boxes_the_parallelism_must_be_said_and_ddtree_stays_on_one() -> None:
    node = Node(rank=0, of=2, leader="10.0.0.1:20000")
    said = refused(advised("b300", box_of("b300", node=node), **PATCHED))
    assert "between 2 boxes it is not known" in said
    said = refused(advised("h200", box_of("h200", node=node), version="0.1.0"))
    assert "rule `ddtree-one-box`" in said


@pytest.mark.parametrize(
    ("name", "changes", "rule"),
    [
        ("sglang", {"decoding": {"adaptive": True}}, "adaptive-is-ddtree"),
        ("sglang", {"device": "cpu"}, "device-is-gpu"),
        ("sglang", {"threads": 2}, "threads-are-ddtree"),
        ("vllm", {"limits": limits(kv_tokens=4096)}, "vllm-sizes-its-cache"),
    ],
)
def test_a_key_the_engine_would_pass_over_is_refused(
    name: str, changes: dict[str, Any], rule: str
) -> None:
    engine = VLLM if name == "vllm" else PATCHED
    decoding = {"mode": "chain" if name == "vllm" else "ddtree", **changes.pop("decoding", {})}
    said = refused(
        advised("b300", box_of("b300", engine=name, decoding=decoding, **changes), **engine)
    )
    assert f"rule `{rule}`" in said
