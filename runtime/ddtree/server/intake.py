"""A checked body turned into engine requests: token ids, limits, seeds. Pure, given a tokenizer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ddtree.core.sequence import Request, Sampling, Speculative
from ddtree.server.dialect import PLAIN
from ddtree.server.errors import bad_request, too_long
from ddtree.server.protocol import MAX_CHOICES, ChatBody, CompletionBody
from ddtree.server.seam import Loaded
from ddtree.server.speech import PLAINLY, SPACE, Hearing, Speech

COMPLETION_MAX_TOKENS = 16  # OpenAI's default for this endpoint
_SEED_BITS = 63  # seeds are int64 on the device
_SEED_MASK = (1 << _SEED_BITS) - 1
_64_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Ask:
    """One HTTP request as the engine will see it."""

    id: str
    chat: bool
    model: str
    created: int  # Unix time, seconds
    requests: tuple[Request, ...]  # by choice index: n for the first prompt, n for the second...
    choices: int  # of each prompt
    prompt_tokens: int  # each prompt once, however many choices it has
    stops: tuple[str, ...]
    stream: bool
    include_usage: bool
    running_usage: bool  # every chunk says how many tokens there are so far
    hearing: Hearing = PLAINLY

    def speech(self, choice: int) -> Speech | None:
        """What listens to one answer; None where all of it is text."""
        if self.hearing.dialect == PLAIN:
            return None
        return Speech(self.hearing, self.requests[choice].id)


@dataclass(frozen=True)
class _Prompts:
    param: str  # what the client calls them
    ids: tuple[tuple[int, ...], ...]


def completion(body: CompletionBody, loaded: Loaded) -> Ask:
    if len(body.prompts) * body.n > MAX_CHOICES:
        raise bad_request(f"prompts times n is more than {MAX_CHOICES}", "n", "invalid_value")
    ids = (
        loaded.tokenizer.encode(prompt, special=True) if isinstance(prompt, str) else prompt
        for prompt in body.prompts
    )
    prompts = _Prompts("prompt", tuple(tuple(prompt) for prompt in ids))
    return _ask(body, prompts, loaded, body.max_tokens or COMPLETION_MAX_TOKENS, body.logprobs)


def chat(body: ChatBody, loaded: Loaded) -> Ask:
    if body.top_logprobs and not body.logprobs:
        raise bad_request("`top_logprobs` needs `logprobs: true`", "top_logprobs", "invalid_value")
    text = _rendered(body, loaded)
    prompts = _Prompts("messages", (tuple(loaded.tokenizer.encode(text, special=True)),))
    limit = body.max_completion_tokens or body.max_tokens
    ask = _ask(body, prompts, loaded, limit, body.top_logprobs if body.logprobs else None)
    return replace(ask, hearing=_hearing(body, text, loaded))


def choice_seed(seed: int, choice: int) -> int:
    """Choice 0 has the seed itself; the others are far apart (a step of splitmix64)."""
    if choice:
        seed = (seed + choice * 0x9E3779B97F4A7C15) & _64_BITS
        seed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
        seed ^= seed >> 31
    return seed & _SEED_MASK


def _rendered(body: ChatBody, loaded: Loaded) -> str:
    if loaded.chat is None:
        raise bad_request("this model has no chat template; use /v1/completions", "messages")
    _check_tools(body, loaded)
    for at, message in enumerate(body.messages):
        if message.fault is not None:
            name, said = message.fault
            param = f"messages[{at}].{name}"
            raise bad_request(f"`{param}` {said}", param, "invalid_value")
    try:
        return loaded.chat.render(
            [message.plain() for message in body.messages],
            tools=[tool.plain() for tool in body.tools] if _calling(body) else [],
            switches=body.chat_template_kwargs,
        )
    except (ValueError, RuntimeError) as error:
        raise bad_request(
            f"the model's chat template refuses these messages: {error}", "messages"
        ) from None


def _check_tools(body: ChatBody, loaded: Loaded) -> None:
    if body.tools and loaded.dialect.calls is None:
        raise bad_request(
            "this model's chat template shows no way to call tools that this server can read",
            "tools",
            "unsupported_parameter",
        )
    if body.tool_choice not in ("none", "auto"):
        raise bad_request(
            "a call cannot be promised: what a model writes is not constrained here;"
            ' use `tool_choice: "auto"`',
            "tool_choice",
            "unsupported_parameter",
        )


def _calling(body: ChatBody) -> bool:
    return bool(body.tools) and body.tool_choice == "auto"


def _hearing(body: ChatBody, prompt: str, loaded: Loaded) -> Hearing:
    thoughts = loaded.dialect.thoughts
    return Hearing(
        loaded.dialect,
        thinking=thoughts is not None and prompt.rstrip(SPACE).endswith(thoughts.begin),
        calling=_calling(body),
        single=not body.parallel_tool_calls,
    )


def _ask(
    body: CompletionBody | ChatBody,
    prompts: _Prompts,
    loaded: Loaded,
    max_tokens: int | None,
    logprobs: int | None,
) -> Ask:
    is_chat = isinstance(body, ChatBody)
    name = f"{'chatcmpl' if is_chat else 'cmpl'}-{secrets.token_hex(12)}"
    stop_ids = frozenset[int]() if body.ignore_eos else loaded.tokenizer.eos_ids
    requests: list[Request] = []
    for ids in prompts.ids:
        room = _room(ids, prompts.param, loaded)
        seed = secrets.randbits(_SEED_BITS) if body.seed is None else body.seed
        for choice in range(body.n):
            sampling = Sampling(
                temperature=body.temperature,
                top_p=body.top_p,
                top_k=max(body.top_k, 0),
                min_p=body.min_p,
                seed=choice_seed(seed, choice),
            )
            requests.append(
                Request(
                    id=f"{name}-{len(requests)}",
                    prompt=ids,
                    max_tokens=min(max_tokens or room, room),
                    sampling=sampling,
                    stop_token_ids=stop_ids,
                    logprobs=logprobs,
                    speculative=Speculative(body.speculative.mode, body.speculative.budget),
                )
            )
    options = body.stream_options
    return Ask(
        id=name,
        chat=is_chat,
        model=body.model,
        created=int(time.time()),
        requests=tuple(requests),
        choices=body.n,
        prompt_tokens=sum(len(ids) for ids in prompts.ids),
        stops=body.stops,
        stream=body.stream,
        include_usage=options is not None and options.include_usage,
        running_usage=options is not None and options.continuous_usage_stats,
    )


def _room(ids: Sequence[int], param: str, loaded: Loaded) -> int:
    """Tokens of the context that are left for the answer."""
    if not ids:
        raise bad_request("the prompt is empty", param, "invalid_value")
    vocabulary = loaded.engine.shape.vocab_size
    if min(ids) < 0 or max(ids) >= vocabulary:
        raise bad_request(
            f"the prompt has token ids outside 0..{vocabulary - 1}", param, "invalid_value"
        )
    context = loaded.engine.config.context_length
    if len(ids) >= context:
        raise too_long(len(ids), context, param)
    return context - len(ids)
