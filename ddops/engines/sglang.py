"""SGLang. What depends on the box, the model or the version stands in the table of rules."""

from __future__ import annotations

from ddops.engines.base import Counters, Engine, Paths, address, asked
from ddops.errors import UsageError
from ddops.spec.argument import Argument
from ddops.spec.deployment import Deployment


def arguments(deployment: Deployment, paths: Paths) -> list[Argument]:
    """Raises `UsageError` for what no rule could make right."""
    limits, serving = deployment.limits, deployment.serving
    if serving.api_key_file is not None:
        raise UsageError(
            "SGLang takes its key on its command line, where every user of the box can read it",
            hint="serve on loopback without `api_key_file`, and reach the box through SSH",
        )
    found = [
        asked("--model-path", paths.model, "the weights, checked against their sha256"),
        asked("--served-model-name", deployment.model.name, "what clients ask for"),
        asked("--context-length", limits.context_length, "tokens of prompt and answer together"),
        asked("--max-running-requests", limits.max_running_requests, "decoded at the same time"),
        address(serving.address),
        asked("--port", serving.port, "from the inventory"),
    ]
    if limits.kv_tokens is not None:
        found.append(asked("--max-total-tokens", limits.kv_tokens, "size of the cache"))
    if deployment.dtype != "auto":
        found.append(asked("--dtype", deployment.dtype, "as asked"))
    return found


SGLANG = Engine(
    name="sglang",
    package="sglang",
    needed=("sglang", "torch"),
    install="pip install sglang",
    serve=("-m", "sglang.launch_server"),
    help=("-m", "sglang.launch_server", "--help"),
    arguments=arguments,
    ready="/health",  # 503 until one token was generated
    info="/server_info",
    notifies=False,
    caches_at_home=True,
    final_exit_codes=(2,),  # argparse refused; everything else ends in 1 or by a signal
    key_variable=None,
    counters=Counters(
        steps="sglang:spec_verify_calls_total",
        generated="sglang:generation_tokens_total",
        finished="sglang:num_requests_total",
    ),
)
