"""Results of other load clients, read from the files they write. Pure.

What their keys mean is from the clients themselves: SGLang 0.5.23, vLLM 0.33.0, AIPerf 0.13.0.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from ddops.errors import SpecError
from ddops.spec.complaint import complaint
from ddops.spec.foreign import Foreign, Stated
from ddops.spec.tool import Tool

Found = Mapping[str, Any]
_HINT: Final = (
    "read are JSON lines of `sglang.bench_serving`, the JSON of `vllm bench serve --save-result` "
    "and `profile_export_aiperf.json`"
)


def read(data: bytes, name: str, tool: Tool | None, version: str | None) -> Foreign:
    """`name` of the file; `tool` None goes by its keys; `version` is for those that do not say.

    Raises `SpecError` where the file is not one result of the tool.
    """
    found = _one(data, name)
    kind = tool or _recognised(found, name)
    try:
        told = READERS[kind](found)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as wrong:
        missing = isinstance(wrong, KeyError)
        what = f"key {wrong} is missing" if missing else str(wrong)
        raise SpecError(f"{name}: no result of {kind}: {what}", hint=_HINT) from None
    own = {"tool": kind, "file": name, "sha256": hashlib.sha256(data).hexdigest()}
    try:
        return Foreign.model_validate({"tool_version": version, **told, **own})
    except ValidationError as wrong:
        first = complaint(wrong, "")
        raise SpecError(f"{name}: {first.where}: {first.message}", hint=_HINT) from None


def _sglang(found: Found) -> dict[str, Any]:
    return {
        **_server_bench(found),
        "model": None,
        "failed": None,
        "concurrency_achieved": found["concurrency"],
        "e2e_s": _milliseconds(found, "e2e_latency"),
        "accept": found.get("accept_length"),
    }


def _vllm(found: Found) -> dict[str, Any]:
    return {
        **_server_bench(found),
        "model": found["model_id"],
        "failed": found["failed"],
        "concurrency_achieved": None,
        "e2e_s": _milliseconds(found, "e2el"),
        "accept": found.get("spec_decode_acceptance_length"),
    }


def _server_bench(found: Found) -> dict[str, Any]:
    """What the two have in common: one grew out of the other."""
    rate = float(found["request_rate"])
    return {
        "concurrency": found["max_concurrency"],
        "rate": None if math.isinf(rate) else rate,
        "completed": found["completed"],
        "output_tokens": found["total_output_tokens"],
        "duration_s": found["duration"],
        "output_tok_s": found["output_throughput"],
        "requests_s": found["request_throughput"],
        "ttft_s": _milliseconds(found, "ttft"),
        "tpot_s": _milliseconds(found, "tpot"),
        "itl_s": _milliseconds(found, "itl"),
    }


def _milliseconds(found: Found, name: str) -> Stated:
    keys = {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99"}
    told = {ours: found.get(f"{theirs}_{name}_ms") for ours, theirs in keys.items()}
    return Stated(**{key: ms / 1000 for key, ms in told.items() if ms is not None})


def _aiperf(found: Found) -> dict[str, Any]:
    config = found["input_config"]
    (phase,) = (one for one in config["phases"] if not one.get("exclude_from_results"))
    failed = _average(found, "error_request_count")
    return {
        "tool_version": found["aiperf_version"],
        "model": config["models"]["items"][0]["name"],
        "concurrency": phase.get("concurrency"),
        "rate": phase.get("rate"),
        "completed": int(found["request_count"]["avg"]),
        "failed": int(failed or 0),
        "output_tokens": int(found["total_output_tokens"]["avg"]),
        "duration_s": found["benchmark_duration"]["avg"],
        "output_tok_s": found["output_token_throughput"]["avg"],
        "requests_s": found["request_throughput"]["avg"],
        "concurrency_achieved": _average(found, "effective_concurrency"),
        "ttft_s": _percentiles(found, "time_to_first_token"),
        "tpot_s": _percentiles(found, "inter_token_latency"),  # one value a request: our TPOT
        "itl_s": _percentiles(found, "inter_chunk_latency"),
        "e2e_s": _percentiles(found, "request_latency"),
        "accept": _average(found, "spec_decode_token_weighted_acceptance_length"),
    }


def _average(found: Found, name: str) -> float | None:
    value = found.get(name, {}).get("avg")
    return None if value is None else float(value)


def _percentiles(found: Found, name: str) -> Stated:
    told, keys = found[name], {"mean": "avg", "p50": "p50", "p90": "p90", "p99": "p99"}
    if told["unit"] != "ms":
        raise ValueError(f"{name} is in {told['unit']}, not in ms")
    return Stated(**{ours: told[theirs] / 1000 for ours, theirs in keys.items()})


READERS: Final[Mapping[Tool, Callable[[Found], dict[str, Any]]]] = {
    "aiperf": _aiperf,
    "sglang": _sglang,
    "vllm": _vllm,
}
_MARKS: Final[Mapping[Tool, str]] = {  # keys that only one of them writes
    "aiperf": "aiperf_version",
    "sglang": "total_output_tokens_retokenized",
    "vllm": "total_token_throughput",
}


def _one(data: bytes, name: str) -> Found:
    """SGLang appends a line to its file at each run: the last one counts."""
    try:
        text = data.decode("utf-8")
        try:
            found = json.loads(text)
        except ValueError:
            found = json.loads(text.strip().rpartition("\n")[2])
    except ValueError as error:
        raise SpecError(f"{name}: is not JSON: {error}", hint=_HINT) from None
    if not isinstance(found, dict):
        raise SpecError(f"{name}: is not an object", hint=_HINT)
    return found


def _recognised(found: Found, name: str) -> Tool:
    for tool, mark in _MARKS.items():
        if mark in found:
            return tool
    raise SpecError(
        f"{name}: no client known here wrote this", hint=f"name it with `--as`; {_HINT}"
    )
