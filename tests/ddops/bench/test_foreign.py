"""Files that other load clients really wrote, read into our words.

They were written by SGLang 0.5.23, vLLM 0.33.0 and AIPerf 0.13.0 against the mock engine: four at
once, 16 answers of 97 tokens, first token after 1 s, then 3 tokens every 0.1 s on average.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ddops.bench.foreign import read
from ddops.errors import SpecError
from ddops.spec.foreign import Foreign
from ddops.spec.tool import Tool

CLIENTS = Path(__file__).parent / "clients"
FILES: dict[Tool, str] = {
    "aiperf": "aiperf.json",
    "sglang": "sglang.jsonl",
    "vllm": "vllm.json",
}


def of(tool: Tool, **changes: Any) -> Foreign:
    name = FILES[tool]
    data = (CLIENTS / name).read_bytes()
    if changes:
        data = json.dumps({**json.loads(data), **changes}).encode()
    return read(data, name, None, None)


@pytest.mark.parametrize("tool", FILES)
def test_each_is_recognised_and_says_what_was_planted(tool: Tool) -> None:
    found = of(tool)
    assert (found.tool, found.concurrency, found.rate) == (tool, 4, None)
    assert (found.completed, found.output_tokens) == (16, 16 * 97)
    assert found.output_tok_s == pytest.approx(92.3, rel=0.03)
    assert found.ttft_s.p50 == pytest.approx(1.0, rel=0.03)
    assert found.tpot_s.p50 == pytest.approx(0.1 / 3, rel=0.03)
    assert found.itl_s.mean == pytest.approx(0.1, rel=0.03)  # between chunks, of 3 tokens
    assert found.e2e_s.p50 == pytest.approx(4.2, rel=0.03)
    data = (CLIENTS / FILES[tool]).read_bytes()
    assert found.sha256 == hashlib.sha256(data).hexdigest()


def test_the_version_is_the_files_own_or_what_is_told() -> None:
    assert of("aiperf").tool_version == "0.13.0"
    assert of("vllm").tool_version is None
    data = (CLIENTS / "vllm.json").read_bytes()
    assert read(data, "vllm.json", "vllm", "0.33.0").tool_version == "0.33.0"


def test_a_rate_that_is_no_limit_is_none() -> None:
    assert of("vllm", request_rate=2.5).rate == 2.5
    assert of("vllm", request_rate="inf").rate is None
    assert of("sglang").rate is None


def test_acceptance_is_read_where_the_tool_has_it() -> None:
    assert of("sglang", accept_length=3.1).accept == 3.1
    assert of("vllm", spec_decode_acceptance_length=2.9).accept == 2.9
    key = "spec_decode_token_weighted_acceptance_length"
    assert of("aiperf", **{key: {"unit": "ratio", "avg": 2.7}}).accept == 2.7
    assert of("aiperf").accept is of("sglang").accept is of("vllm").accept is None


def test_of_a_file_that_was_appended_to_the_last_run_counts() -> None:
    line = (CLIENTS / "sglang.jsonl").read_bytes()
    older = json.dumps({**json.loads(line), "completed": 3}).encode()
    assert read(older + b"\n" + line, "f", None, None).completed == 16


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"{", "f: is not JSON"),
        (b"\xff", "f: is not JSON"),
        (b"[1]", "f: is not an object"),
        (b'{"a": 1}', "f: no client known here wrote this"),
        (b'{"total_token_throughput": 1}', "f: no result of vllm: key 'request_rate' is missing"),
        (b'{"aiperf_version": "1", "input_config": 3}', "f: no result of aiperf: "),
    ],
)
def test_what_is_no_result_is_named(data: bytes, complaint: str) -> None:
    with pytest.raises(SpecError) as told:
        read(data, "f", None, None)
    assert told.value.subject.startswith(complaint)
    assert "vllm bench serve" in str(told.value.hint)


def test_a_value_of_another_kind_is_named_with_its_place() -> None:
    with pytest.raises(SpecError, match=r"vllm\.json: completed: "):
        of("vllm", completed="many")
    with pytest.raises(SpecError, match="time_to_first_token is in s, not in ms"):
        of("aiperf", time_to_first_token={"unit": "s"})
