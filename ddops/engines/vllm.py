"""vLLM. What depends on the box, the model or the version stands in the table of rules."""

from __future__ import annotations

from ddops.engines.base import Counters, Engine, Paths, address, asked
from ddops.spec.argument import Argument
from ddops.spec.deployment import Deployment


def arguments(deployment: Deployment, paths: Paths) -> list[Argument]:
    limits, serving = deployment.limits, deployment.serving
    found = [
        asked("", paths.model, "the weights, checked against their sha256"),
        asked("--served-model-name", deployment.model.name, "what clients ask for"),
        asked("--max-model-len", limits.context_length, "tokens of prompt and answer together"),
        asked("--max-num-seqs", limits.max_running_requests, "decoded at the same time"),
        address(serving.address),
        asked("--port", serving.port, "from the inventory"),
    ]
    if deployment.dtype != "auto":
        found.append(asked("--dtype", deployment.dtype, "as asked"))
    return found


VLLM = Engine(
    name="vllm",
    package="vllm",
    needed=("vllm", "torch"),
    install="pip install vllm",
    serve=("-m", "vllm.entrypoints.cli.main", "serve"),
    help=("-m", "vllm.entrypoints.cli.main", "serve", "--help=all"),
    arguments=arguments,
    ready="/health",  # the server listens only after the engine has loaded and warmed up
    info="/version",
    notifies=False,
    caches_at_home=True,
    final_exit_codes=(2,),
    key_variable="VLLM_API_KEY",
    counters=Counters(
        steps="vllm:spec_decode_num_drafts_total",
        generated="vllm:generation_tokens_total",
        drafted="vllm:spec_decode_num_draft_tokens_total",
        accepted="vllm:spec_decode_num_accepted_tokens_total",
        per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
    ),
)
