"""From a deployment to the engine's command line, with the reason for every argument."""

from __future__ import annotations

from ddops.errors import UsageError
from ddops.spec.base import Word
from ddops.spec.deployment import Decoding, Deployment, Weights


class Argument(Word):
    flag: str
    value: str  # empty for a switch
    why: str


def engine_arguments(deployment: Deployment, model: str, drafter: str | None) -> list[Argument]:
    """`model` and `drafter` are what lies on the box; a drafter of None comes with the engine."""
    if deployment.engine != "ddtree":
        raise UsageError(
            f"engine `{deployment.engine}` cannot be deployed by this version",
            hint="set `engine: ddtree` in the inventory",
        )
    limits, serving = deployment.limits, deployment.serving
    found = [
        Argument(flag="--model", value=model, why="the weights, checked against their sha256"),
        Argument(
            flag="--served-model-name", value=deployment.model.name, why="what clients ask for"
        ),
        *_decoding(deployment.decoding, drafter),
        Argument(flag="--dtype", value=deployment.dtype, why=_auto(deployment.dtype, "precision")),
        Argument(flag="--device", value=deployment.device, why=_auto(deployment.device, "device")),
        _number("--context-length", limits.context_length, "tokens of prompt and answer together"),
        _number("--max-running-requests", limits.max_running_requests, "decoded at the same time"),
        _number(
            "--prefill-chunk", limits.prefill_chunk, "prompt tokens a step, so decoding goes on"
        ),
        Argument(flag="--host", value=serving.address, why=_address(serving.address)),
        _number("--port", serving.port, "from the inventory"),
    ]
    if limits.kv_tokens is not None:
        found.append(_number("--kv-tokens", limits.kv_tokens, "size of the cache"))
    if deployment.graphs == "off":
        found.append(Argument(flag="--graphs", value="off", why="eager, as asked"))
    if deployment.threads is not None:
        found.append(_number("--threads", deployment.threads, "CPU threads"))
    return found


def engine_argv(python: str, arguments: list[Argument]) -> tuple[str, ...]:
    flags = (word for one in arguments for word in (one.flag, one.value) if word)
    return (python, "-m", "ddtree", "serve", *flags)


def _decoding(decoding: Decoding, drafter: str | None) -> list[Argument]:
    modes = {
        "ar": "one token a step: the baseline",
        "chain": "a draft without branches, verified in one step",
        "ddtree": "a draft tree, verified in one step",
    }
    found = [Argument(flag="--mode", value=decoding.mode, why=modes[decoding.mode])]
    if decoding.mode == "ar":
        return found
    if decoding.mode == "ddtree":
        found.append(_number("--budget", decoding.budget, "tree nodes besides the root"))
    if decoding.adaptive:
        found.append(Argument(flag="--adaptive", value="", why="each step takes what pays most"))
    if isinstance(decoding.drafter, Weights):
        value, why = drafter or "bundled", "trained for this model"
    else:
        value, why = "prompt-lookup", "drafts from the prompt's own n-grams, no training"
    return [*found, Argument(flag="--drafter", value=value, why=why)]


def _number(flag: str, value: int, why: str) -> Argument:
    return Argument(flag=flag, value=str(value), why=why)


def _auto(value: str, what: str) -> str:
    return f"the engine picks the {what} that fits the box" if value == "auto" else "as asked"


def _address(address: str) -> str:
    loopback = address in ("127.0.0.1", "::1", "localhost")
    return "reachable from this machine only" if loopback else "open to others, so it has a key"
