"""How another load client is asked for the load of a cell: its command line and its prompts. Pure.

Each runs in an environment of its own, where the user installed it: their pins exclude each other
and ours. Options are those of SGLang 0.5.23, vLLM 0.33.0 and AIPerf 0.13.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ddops.bench.client import Question
from ddops.spec.matrix import Load, Pace
from ddops.spec.tool import Tool

PROMPTS: Final = "prompts.jsonl"


@dataclass(frozen=True)
class Errand:
    """What a client has to do, and where it puts what it found."""

    url: str  # http://host:port
    model: str
    tokenizer: str  # a folder; these clients load one even where the engine counts the tokens
    load: Load
    pace: Pace  # closed or Poisson: none of them reads our traces
    folder: str

    @property
    def prompts(self) -> str:
        return f"{self.folder}/{PROMPTS}"

    @property
    def requests(self) -> int:
        return self.load.asked(self.pace)


@dataclass(frozen=True)
class Client:
    argv: Callable[[str, Errand], tuple[str, ...]]  # of a program
    row: Callable[[str], Mapping[str, object]]  # of a prompt
    result: str  # the file, in the errand's folder


def prompts(client: Client, questions: Sequence[Question]) -> str:
    return "".join(f"{json.dumps(client.row(question.text))}\n" for question in questions)


def _vllm(program: str, errand: Errand) -> tuple[str, ...]:
    return (
        *(program, "bench", "serve", "--backend", "openai-chat"),
        *("--endpoint", "/v1/chat/completions", "--base-url", errand.url),
        *("--model", errand.model, "--tokenizer", errand.tokenizer),
        *("--dataset-name", "custom", "--dataset-path", errand.prompts),
        *("--custom-output-len", str(errand.load.max_tokens)),
        *("--skip-chat-template", "--disable-shuffle", "--disable-tqdm"),
        *("--num-prompts", str(errand.requests), "--num-warmups", str(errand.load.warmup)),
        *("--temperature", str(errand.load.temperature), "--seed", str(errand.load.seed)),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99"),
        *("--save-result", "--result-dir", errand.folder, "--result-filename", "vllm.json"),
        *_paced(errand.pace, "--max-concurrency"),
    )


def _sglang(program: str, errand: Errand) -> tuple[str, ...]:
    """`program` is the Python it is installed in."""
    return (
        *(program, "-m", "sglang.bench_serving", "--backend", "sglang-oai-chat"),
        *("--base-url", errand.url, "--model", errand.model, "--tokenizer", errand.tokenizer),
        *("--dataset-name", "custom", "--dataset-path", errand.prompts),
        *("--sharegpt-output-len", str(errand.load.max_tokens)),
        *("--num-prompts", str(errand.requests)),
        *("--warmup-requests", str(errand.load.warmup)),
        *("--temperature", str(errand.load.temperature), "--seed", str(errand.load.seed)),
        *("--disable-ignore-eos", "--disable-tqdm"),
        *("--output-file", f"{errand.folder}/sglang.jsonl"),
        *_paced(errand.pace, "--max-concurrency"),
    )


def _aiperf(program: str, errand: Errand) -> tuple[str, ...]:
    load = errand.load
    return (
        *(program, "profile", "--model", errand.model, "--url", errand.url),
        *("--endpoint-type", "chat", "--streaming", "--tokenizer", errand.tokenizer),
        *("--use-legacy-max-tokens", "--use-server-token-count", "--per-chunk-usage"),
        *("--extra-inputs", f"max_tokens:{load.max_tokens}"),
        *("--extra-inputs", f"temperature:{load.temperature}"),
        *("--input-file", errand.prompts, "--custom-dataset-type", "single_turn"),
        *("--request-count", str(errand.requests), "--random-seed", str(load.seed)),
        *(("--warmup-request-count", str(load.warmup)) if load.warmup else ()),
        *("--artifact-dir", errand.folder, "--ui", "none"),
        *_paced(errand.pace, "--concurrency"),
        *(("--arrival-pattern", "poisson") if errand.pace.rate is not None else ()),
    )


def _paced(pace: Pace, concurrency: str) -> tuple[str, ...]:
    if pace.rate is not None:
        return ("--request-rate", f"{pace.rate:g}")
    return (concurrency, str(pace.concurrency))


def _conversation(text: str) -> Mapping[str, object]:
    """Its data sets end with an answer, which is not sent."""
    said = [{"from": "human", "value": text}, {"from": "gpt", "value": "An answer."}]
    return {"conversations": said}


CLIENTS: Final[Mapping[Tool, Client]] = {
    "aiperf": Client(_aiperf, lambda text: {"text": text}, "profile_export_aiperf.json"),
    "sglang": Client(_sglang, _conversation, "sglang.jsonl"),
    "vllm": Client(_vllm, lambda text: {"prompt": text}, "vllm.json"),
}
