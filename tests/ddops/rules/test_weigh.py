"""How rules speak: flags, variables, refusals, notes; and how they are told to be silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ddops.errors import SpecError, UsageError
from ddops.rules import expression
from ddops.rules.learned import learned
from ddops.rules.weigh import shipped, table, weigh
from ddops.spec.matrix import Variant
from ddops.spec.rule import Rule, Table
from ddops.spec.search import Wall
from ddops.spec.situation import Situation

PLAIN: dict[str, Any] = {
    **dict.fromkeys(Situation.model_fields),
    "engine": "sglang",
    "mode": "ar",
    "budget": 8,
    "adaptive": False,
    "device": "auto",
    "graphs": True,
    "parallel": "auto",
    "nvls": "auto",
    "context_length": 4096,
    "max_running_requests": 8,
    "prefix_cache": True,
    "use": 1,
    "nodes": 1,
    "rank": 0,
    "gpus": 1,
    "mixed": False,
    "mig": False,
    "link": "alone",
    "fabric": "absent",
}


def situation(**changes: Any) -> Situation:
    return Situation(**{**PLAIN, **changes})


def rule(**parts: Any) -> Rule:
    base = {"name": "r", "when": "true", "why": "because", "source": "a test", "sure": "reasoned"}
    return Rule(**{**base, **parts})


def test_a_rule_sets_flags_and_variables_with_its_reason() -> None:
    speaks = rule(set={"--tp-size": "{{ gpus }}", "--switch": None}, env={"A": "{{ engine }}"})
    advice = weigh([speaks], situation(gpus=8))
    said = [(one.flag, one.value, one.why, one.rule) for one in advice.arguments]
    assert said == [("--tp-size", "8", "because", "r"), ("--switch", "", "because", "r")]
    assert [(one.name, one.value) for one in advice.settings] == [("A", "sglang")]


def test_a_rule_that_does_not_apply_is_silent() -> None:
    advice = weigh([rule(when="engine == 'vllm'", set={"--x": 1})], situation())
    assert advice.arguments == ()


def test_a_broken_requirement_is_told_with_what_to_do_instead() -> None:
    wall = rule(require="budget <= 8", instead="set `budget: 8`, not {{ budget }}")
    assert weigh([wall], situation(budget=8)).broken == ()
    (broken,) = weigh([wall], situation(budget=12)).broken
    assert (broken.rule, broken.instead) == ("r", "set `budget: 8`, not 12")


def test_an_overridden_rule_neither_refuses_nor_sets_and_is_listed() -> None:
    rules = [
        rule(require="budget <= 8", instead="less"),
        rule(name="sets", set={"--x": 1}),
    ]
    advice = weigh(rules, situation(budget=12), ["r", "sets"])
    assert (advice.broken, advice.arguments) == ((), ())
    assert [one.rule for one in advice.overridden] == ["r", "sets"]


def test_an_override_of_no_rule_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="no rule `wal`") as caught:
        weigh([rule(name="wall", say=True)], situation(), ["wal"])
    assert caught.value.hint == "did you mean `wall`?"


def test_rules_that_contradict_each_other_are_a_fault_of_the_table() -> None:
    rules = [rule(name="a", set={"--x": 1}), rule(name="b", set={"--x": 2})]
    with pytest.raises(SpecError, match="`a` and `b` contradict"):
        weigh(rules, situation())


@pytest.mark.parametrize(
    ("version", "holds"),
    [("0.5.20", True), ("0.5.20.dev3", False), ("0.5.9", False), ("0.6", True)],
)
def test_versions_are_compared_as_versions(version: str, holds: bool) -> None:  # noqa: FBT001
    names = expression.names_of(situation(version=version))
    assert expression.holds("version is since('0.5.20')", names) is holds
    assert expression.holds("version is before('0.5.20')", names) is not holds


@pytest.mark.parametrize("version", [None, "nightly"])
def test_of_an_unknown_version_nothing_holds(version: str | None) -> None:
    names = expression.names_of(situation(version=version))
    assert not expression.holds("version is since('0.1') or version is before('99')", names)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"when": "budgett > 8", "say": True}, "asks about budgett"),
        ({"when": "budget >", "say": True}, "in `{{ budget > }}`"),
        ({"set": {"--x": "{{ gpu_count }}"}}, "asks about gpu_count"),
    ],
)
def test_a_mistake_in_a_rule_is_found_when_the_table_is_read(
    parts: dict[str, Any], text: str
) -> None:
    with pytest.raises(SpecError) as caught:
        expression.check(rule(**parts))
    assert text in caught.value.subject


@pytest.mark.parametrize("one", shipped(), ids=lambda one: one.name)
def test_no_shipped_rule_has_a_mistake(one: Rule) -> None:
    expression.check(one)


def test_an_expression_cannot_reach_out_of_its_sandbox() -> None:
    names = expression.names_of(situation())
    with pytest.raises(Exception, match="unsafe"):
        expression.holds("engine.__class__.__mro__", names)


@pytest.mark.parametrize("parts", [{}, {"say": True, "set": {"--x": 1}}, {"require": "true"}])
def test_a_rule_says_exactly_one_thing(parts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        rule(**parts)


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="two rules are called r"):
        Table(rules=(rule(say=True), rule(say=True)))


OWN = """\
rules:
  - name: {name}
    when: engine == 'sglang' and {what}
    say: true
    why: measured here
    source: a test
    sure: measured
"""


def own(folder: Path, name: str, what: str = "budget > 8") -> Path:
    (folder / "rules").mkdir(exist_ok=True)
    (folder / "rules" / f"{name}.yaml").write_text(OWN.format(name=name, what=what), "utf-8")
    return folder


def test_rules_of_the_working_folder_join_the_shipped_ones(tmp_path: Path) -> None:
    assert [rule.name for rule in table(own(tmp_path, "mine"))][-1] == "mine"
    assert len(table(tmp_path)) == len(table()) + 1


@pytest.mark.parametrize(
    ("capability", "triton", "said"),
    [
        (None, None, []),
        ("9.0", None, []),
        ("9.0", "3.6.0", []),
        ("9.0", "3.7.1", ["ddtree-newer-triton"]),
        ("10.3", "3.7.1", ["ddtree-other-gpu"]),
        ("12.0", "3.6.0", ["ddtree-other-gpu"]),
    ],
)
def test_kernels_that_were_never_run_there_are_said_to_be(
    capability: str | None, triton: str | None, said: list[str]
) -> None:
    where = {"capability": capability, "gpu": "a GPU", "triton": triton}
    advice = weigh(shipped(), situation(engine="ddtree", **where))
    about = [note.rule for note in advice.notes if note.rule and note.rule.startswith("ddtree-")]
    assert about == said
    on_cpu = weigh(shipped(), situation(engine="ddtree", device="cpu", **where))
    vllm = weigh(shipped(), situation(engine="vllm", version="0.33.0", **where))
    assert on_cpu.notes == vllm.notes == ()


def test_an_own_rule_may_not_have_the_name_of_a_shipped_one(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="rule `gpu-known` is there twice"):
        table(own(tmp_path, "gpu-known"))


def test_a_mistake_in_an_own_rule_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="rule `mine` asks about nothing"):
        table(own(tmp_path, "mine", what="nothing"))


def test_a_wall_becomes_a_rule_that_speaks_only_where_it_was_measured() -> None:
    wall = Wall(
        works=Variant(name="ddtree-b8", mode="ddtree", budget=8, graphs="auto"),
        fails=Variant(name="ddtree-b12", mode="ddtree", budget=12, graphs="auto"),
        failure="illegal-access",
        cause="graphs",
    )
    where = {"version": "0.5.13", "capability": "10.3", "mode": "ddtree", "budget": 12}
    found = learned(wall, situation(**where), "b300", "results/search-b300-1")
    (broken,) = weigh([found], situation(**where)).broken
    assert broken.why == ("budget 8 works, 12 ends in illegal-access; it works with graphs off")
    assert broken.instead == "set `budget: 8`, or `graphs: off`"
    elsewhere = ({"graphs": False}, {"version": "0.5.14"}, {"capability": "9.0"}, {"budget": 8})
    for other in elsewhere:
        assert weigh([found], situation(**{**where, **other})).broken == ()


some = st.none() | st.sampled_from(["0.5.9", "0.5.13", "0.5.19", "0.5.23", "0.33.0", "nightly"])
situations = st.builds(
    Situation,
    **{
        **{name: st.none() for name in Situation.model_fields},
        "engine": st.sampled_from(["ddtree", "sglang", "vllm"]),
        "mode": st.sampled_from(["ar", "chain", "ddtree"]),
        "budget": st.sampled_from([1, 8, 16, 256]),
        "adaptive": st.booleans(),
        "device": st.sampled_from(["auto", "cpu", "cuda"]),
        "threads": st.none() | st.just(2),
        "kv_tokens": st.none() | st.just(4096),
        "graphs": st.booleans(),
        "parallel": st.sampled_from(["auto", "tp", "ep"]),
        "nvls": st.sampled_from(["auto", "on", "off"]),
        "context_length": st.sampled_from([2048, 10**6]),
        "max_running_requests": st.sampled_from([1, 128, 512]),
        "prefill_chunk": st.none() | st.just(512),
        "prefix_cache": st.booleans(),
        "drafter": st.none() | st.just("/w/d"),
        "use": st.sampled_from([0, 1, 8]),
        "nodes": st.sampled_from([1, 2]),
        "rank": st.sampled_from([0, 1]),
        "leader": st.just("10.0.0.1"),
        "leader_port": st.just(20000),
        "version": some,
        "flags": st.none()
        | st.just(frozenset())
        | st.just(frozenset({"--speculative-ddtree-budget"}))
        | st.just(frozenset({"--speculative-dflash-enable-ddtree"})),
        "nccl": st.none() | st.sampled_from(["2.28.9", "2.29.7"]),
        "triton": st.none() | st.sampled_from(["3.6.0", "3.7.1"]),
        "triton_ptxas": st.none() | st.sampled_from(["12.8", "13.0"]),
        "cuda_ptxas": st.none() | st.just("/usr/local/cuda/bin/ptxas"),
        "flash_attn_cute": st.none() | st.booleans(),
        "gpus": st.sampled_from([0, 1, 7, 8]),
        "gpu": st.none() | st.just("a GPU"),
        "capability": st.none() | st.sampled_from(["9.0", "10.3", "12.0", "13.0"]),
        "mixed": st.booleans(),
        "mig": st.booleans(),
        "link": st.sampled_from(["alone", "nvlink", "pcie", "mixed", "unknown"]),
        "fabric": st.sampled_from(["ready", "starting", "failed", "absent", "unknown"]),
        "family": st.none() | st.just("kimi_k25"),
        "attention": st.none() | st.sampled_from(["mla", "gqa"]),
        "experts": st.none() | st.sampled_from([0, 384]),
        "vision": st.none() | st.booleans(),
        "remote_code": st.none() | st.booleans(),
        "max_context": st.none() | st.just(262144),
        "drafter_method": st.none() | st.sampled_from(["dflash", "eagle3", "prompt-lookup"]),
        "depth": st.none() | st.just(7),
        "yarn": st.none() | st.sampled_from(["none", "plain", "mscale", "attn_factor"]),
        "memory": st.none() | st.just(140.0),
        "weights": st.none() | st.just(70.0),
        "cache": st.none() | st.just(4.0),
        "reserve": st.none() | st.just(10.0),
    },
)


@settings(deadline=None)  # the first example reads the table
@given(situations)
def test_the_shipped_table_speaks_in_every_situation_and_never_against_itself(
    seen: Situation,
) -> None:
    advice = weigh(table(), seen)
    assert all(one.why and one.source and one.rule for one in advice.arguments)
    assert "None" not in "".join(one.value for one in advice.arguments) or seen.drafter is None
