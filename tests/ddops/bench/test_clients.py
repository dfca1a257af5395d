"""What other load clients are asked, option by option, and the prompts they read."""

from __future__ import annotations

import json

import pytest

from ddops.bench.client import Question
from ddops.bench.clients import CLIENTS, Errand, prompts
from ddops.spec.matrix import Load, Pace
from ddops.spec.tool import Tool

LOAD = Load(requests=24, warmup=3, max_tokens=64, temperature=0.0, seed=7)


def argv(tool: Tool, pace: Pace, load: Load = LOAD) -> tuple[str, ...]:
    errand = Errand(
        url="http://127.0.0.1:8421",
        model="m",
        tokenizer="/tok",
        load=load,
        pace=pace,
        folder="/out",
    )
    return CLIENTS[tool].argv("prog", errand)


def value(argv: tuple[str, ...], option: str) -> str:
    assert argv.count(option) == 1, f"{option} in {argv}"
    return argv[argv.index(option) + 1]


@pytest.mark.parametrize(
    ("tool", "count", "warmup", "concurrency"),
    [
        ("aiperf", "--request-count", "--warmup-request-count", "--concurrency"),
        ("sglang", "--num-prompts", "--warmup-requests", "--max-concurrency"),
        ("vllm", "--num-prompts", "--num-warmups", "--max-concurrency"),
    ],
)
def test_each_is_asked_for_the_load_of_the_cell(
    tool: Tool, count: str, warmup: str, concurrency: str
) -> None:
    asked = argv(tool, Pace(concurrency=4))
    assert asked[0] == "prog"
    assert (value(asked, count), value(asked, warmup)) == ("24", "3")
    assert value(asked, concurrency) == "4"
    assert value(asked, "--model") == "m"
    assert value(asked, "--tokenizer") == "/tok"
    assert "/out/prompts.jsonl" in asked
    assert "http://127.0.0.1:8421" in asked
    assert "--request-rate" not in asked
    assert any("64" in word for word in asked)
    assert argv(tool, Pace(concurrency=8)) != asked


@pytest.mark.parametrize("tool", CLIENTS)
def test_at_a_rate_there_is_no_limit_of_requests_in_flight(tool: Tool) -> None:
    asked = argv(tool, Pace(arrivals="poisson", rate=0.5))
    assert value(asked, "--request-rate") == "0.5"
    assert not {"--max-concurrency", "--concurrency"} & set(asked)


def test_aiperf_takes_no_warm_up_of_none() -> None:
    load = LOAD.model_copy(update={"warmup": 0})
    assert "--warmup-request-count" not in argv("aiperf", Pace(concurrency=1), load)


@pytest.mark.parametrize(
    ("tool", "row"),
    [
        ("aiperf", {"text": "Why?\nSo."}),
        ("vllm", {"prompt": "Why?\nSo."}),
    ],
)
def test_prompts_are_lines_of_its_own_shape(tool: Tool, row: dict[str, str]) -> None:
    asked = [Question(f"p{n}", "Why?\nSo.", 9, 0.0, n) for n in range(2)]
    lines = prompts(CLIENTS[tool], asked).splitlines()
    assert [json.loads(line) for line in lines] == [row, row]


def test_sglang_reads_a_conversation_and_sends_its_first_turn() -> None:
    (line,) = prompts(CLIENTS["sglang"], [Question("p", "Why?", 9, 0.0, 0)]).splitlines()
    first, second = json.loads(line)["conversations"]
    assert (first["value"], second["from"]) == ("Why?", "gpt")
