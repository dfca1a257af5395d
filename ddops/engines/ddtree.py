"""The bundled engine. Its command line is pinned by tests/contract."""

from __future__ import annotations

from ddops.engines.base import Counters, Engine, Paths, address, asked
from ddops.spec.argument import Argument
from ddops.spec.deployment import Decoding, Deployment, Weights

_MODES = {
    "ar": "one token a step: the baseline",
    "chain": "a draft without branches, verified in one step",
    "ddtree": "a draft tree, verified in one step",
}


def arguments(deployment: Deployment, paths: Paths) -> list[Argument]:
    limits, serving = deployment.limits, deployment.serving
    found = [
        asked("--model", paths.model, "the weights, checked against their sha256"),
        asked("--served-model-name", deployment.model.name, "what clients ask for"),
        *_decoding(deployment.decoding, paths.drafter),
        asked("--dtype", deployment.dtype, _auto(deployment.dtype, "precision")),
        asked("--device", deployment.device, _auto(deployment.device, "device")),
        asked("--context-length", limits.context_length, "tokens of prompt and answer together"),
        asked("--max-running-requests", limits.max_running_requests, "decoded at the same time"),
        address(serving.address),
        asked("--port", serving.port, "from the inventory"),
    ]
    if limits.prefill_chunk is not None:
        why = "prompt tokens a step, so decoding goes on"
        found.append(asked("--prefill-chunk", limits.prefill_chunk, why))
    if not limits.prefix_cache:
        found.append(asked("--no-prefix-cache", "", "every prompt is prefilled whole, as asked"))
    if limits.kv_tokens is not None:
        found.append(asked("--kv-tokens", limits.kv_tokens, "size of the cache"))
    if deployment.graphs == "off":
        found.append(asked("--graphs", "off", "eager, as asked"))
    if deployment.threads is not None:
        found.append(asked("--threads", deployment.threads, "CPU threads"))
    return found


def _decoding(decoding: Decoding, drafter: str | None) -> list[Argument]:
    found = [asked("--mode", decoding.mode, _MODES[decoding.mode])]
    if decoding.mode == "ar":
        return found
    if decoding.mode == "ddtree":
        found.append(asked("--budget", decoding.budget, "tree nodes besides the root"))
    if decoding.adaptive:
        found.append(asked("--adaptive", "", "each step takes what pays most"))
    if isinstance(decoding.drafter, Weights):
        return [*found, asked("--drafter", drafter or "bundled", "trained for this model")]
    why = "drafts from the prompt's own n-grams, no training"
    return [*found, asked("--drafter", "prompt-lookup", why)]


def _auto(value: str, what: str) -> str:
    return f"the engine picks the {what} that fits the box" if value == "auto" else "as asked"


DDTREE = Engine(
    name="ddtree",
    package="ddops",
    needed=(
        "ddtree",
        "torch",
        "numpy",
        "safetensors",
        "gguf",
        "tokenizers",
        "minijinja",
        "starlette",
        "uvicorn",
        "prometheus_client",
    ),
    install="pip install 'ddops[runtime]'",
    serve=("-m", "ddtree", "serve"),
    help=("-m", "ddtree", "serve", "--help"),
    arguments=arguments,
    ready="/ready",
    info="/server_info",
    notifies=True,
    caches_at_home=False,
    # Bad arguments, bad weights, out of memory, port in use.
    final_exit_codes=(2, 3, 4, 5),
    key_variable="DDTREE_API_KEY",
    counters=Counters(
        steps="ddtree:spec_decode_num_drafts_total",
        generated="ddtree:generation_tokens_total",
        drafted="ddtree:spec_decode_num_draft_tokens_total",
        accepted="ddtree:spec_decode_num_accepted_tokens_total",
        per_position="ddtree:spec_decode_num_accepted_tokens_per_pos_total",
        by_budget="ddtree:decode_steps_total",
    ),
)
