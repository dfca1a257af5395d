"""SGLang's and vLLM's own routers, in front of replicas. They compute nothing: no rule speaks.

They hand on what a client sends, its key too: each replica checks it.
"""

from __future__ import annotations

from ddops.engines.base import Counters, Engine, Paths, address, asked
from ddops.spec.argument import Argument
from ddops.spec.deployment import Deployment, EngineName

POLICY = "cache_aware"
_NONE = Counters(steps="", generated="")  # the replicas count


def arguments(deployment: Deployment, _: Paths) -> list[Argument]:
    router, serving = deployment.router, deployment.serving
    assert router, "the inventory of a router names its replicas"
    (name, first), *others = router.replicas.items()
    waits = f"{deployment.ready_timeout_s:.0f}"
    policy = "requests that begin alike go where their beginning is cached"
    return [
        asked("--worker-urls", first, f"replica `{name}`"),
        *(asked("", url, f"replica `{name}`") for name, url in others),
        asked("--policy", router.policy or POLICY, "as asked" if router.policy else policy),
        address(serving.address),
        asked("--port", serving.port, "from the inventory"),
        asked("--worker-startup-timeout-secs", waits, "as long as the gate waits"),
        asked("--prometheus-host", "127.0.0.1", "its counters, from this machine only"),
    ]


def _router(name: EngineName, module: str) -> Engine:
    serve = ("-m", f"{module}.launch_router")
    return Engine(
        name=name,
        package=name,
        needed=(module,),
        install=f"pip install {name}",
        serve=serve,
        help=(*serve, "--help"),
        arguments=arguments,
        ready="/readiness",  # says how many of its replicas are healthy
        info="/v1/models",
        notifies=False,
        caches_at_home=False,
        final_exit_codes=(2,),
        key_variable=None,
        counters=_NONE,
    )


SGLANG_ROUTER = _router("sglang-router", "sglang_router")
VLLM_ROUTER = _router("vllm-router", "vllm_router")
