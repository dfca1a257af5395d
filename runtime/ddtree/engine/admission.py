"""What a request may ask of this engine, and the sequence that is made of it. Ints only."""

from __future__ import annotations

from dataclasses import dataclass

from ddtree.config import EngineConfig, Mode
from ddtree.core.sequence import Request, Sequence
from ddtree.engine.errors import RequestError

WITHIN: dict[Mode, tuple[Mode, ...]] = {  # what a request may ask of a server in this mode
    "ar": ("ar",),
    "chain": ("ar", "chain"),
    "ddtree": ("ar", "chain", "ddtree"),
}


@dataclass(frozen=True)
class Limits:
    """What the engine turned out to hold, beyond its configuration."""

    depth: int  # D of a drafted step
    vocab_size: int
    longest: int  # tokens of a sequence that the cache holds when it is alone


def sequence_of(request: Request, config: EngineConfig, limits: Limits) -> Sequence:
    """Raises RequestError for a request that can never be served."""
    _check(request, config, limits)
    mode = request.speculative.mode or config.mode
    return Sequence(
        request,
        list(request.prompt),
        end=min(
            len(request.prompt) + request.max_tokens,
            config.context_length,
            limits.longest + 1,  # the last token needs no place
        ),
        limit=_allowance(mode, request.speculative.budget, config, limits.depth),
        branches=mode == "ddtree",
    )


def _check(request: Request, config: EngineConfig, limits: Limits) -> None:
    context_length, vocab_size = config.context_length, limits.vocab_size
    if not request.prompt:
        raise RequestError("the prompt is empty", "prompt")
    if len(request.prompt) >= context_length:
        message = f"the prompt has {len(request.prompt)} tokens, the context holds {context_length}"
        raise RequestError(message, "prompt")
    if request.max_tokens < 1:
        raise RequestError("max_tokens must be at least 1", "max_tokens")
    if min(request.prompt) < 0 or max(request.prompt) >= vocab_size:
        raise RequestError(f"the prompt has tokens outside 0..{vocab_size - 1}", "prompt")
    if len(request.prompt) >= limits.longest:
        raise RequestError("the prompt does not fit into the cache", "prompt")


def _allowance(mode: Mode, budget: int | None, config: EngineConfig, depth: int) -> int:
    """Nodes besides the root that a step may verify for a request."""
    if mode not in WITHIN[config.mode]:
        able = " or ".join(WITHIN[config.mode])
        message = f"this server decodes in mode {able}, not in mode {mode}"
        raise RequestError(message, "speculative.mode")
    most = {"ar": 0, "chain": depth, "ddtree": config.budget}[mode]
    if config.mode == "ddtree":
        most = min(most, config.budget)
    if budget is not None and budget > most:
        message = f"a budget of {budget} is more than the {most} of mode {mode} here"
        raise RequestError(message, "speculative.budget")
    return most if budget is None else budget
