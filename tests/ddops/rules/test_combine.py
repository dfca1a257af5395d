"""One command line from the wish, the rules and `flags`."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.errors import SpecError
from ddops.rules.combine import combine
from ddops.rules.weigh import weigh
from ddops.spec.argument import Argument
from ddops.spec.deployment import Deployment
from ddops.spec.load import load_box
from tests.ddops.rules.test_weigh import rule, situation

PORT = Argument(flag="--port", value="1", why="from the inventory")
BACKEND = rule(set={"--attention-backend": "triton"})


def wish(**flags: Any) -> Deployment:
    named = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    return load_box("local").deployment.model_copy(update={"flags": named})


def test_own_keys_come_first_then_rules_then_flags() -> None:
    found, broken = combine([PORT], weigh([BACKEND], situation()), wish(x=1, switch=None))
    said = [(one.flag, one.value, one.sure) for one in found]
    assert said == [
        ("--port", "1", "asked"),
        ("--attention-backend", "triton", "reasoned"),
        ("--x", "1", "asked"),
        ("--switch", "", "asked"),
    ]
    assert broken == ()


def test_a_flag_of_another_key_is_refused() -> None:
    with pytest.raises(SpecError, match="`flags` sets --port"):
        combine([PORT], weigh([], situation()), wish(port=2))


def test_a_flag_that_contradicts_a_rule_breaks_it_until_it_is_overridden() -> None:
    asked = wish(attention_backend="trtllm_mla")
    _, (broken,) = combine([], weigh([BACKEND], situation()), asked)
    assert broken.rule == "r"
    assert "asks for --attention-backend trtllm_mla" in broken.why
    found, none = combine([], weigh([BACKEND], situation(), ["r"]), asked)
    assert [(one.value, one.why) for one in found] == [("trtllm_mla", "as asked")]
    assert none == ()


def test_a_flag_that_says_what_the_rule_says_changes_nothing() -> None:
    advice = weigh([BACKEND], situation())
    found, broken = combine([], advice, wish(attention_backend="triton"))
    assert (found, broken) == (advice.arguments, ())
