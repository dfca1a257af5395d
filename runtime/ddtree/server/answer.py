"""OpenAI's response bodies, as plain dicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ddtree import __version__
from ddtree.core.sequence import Speculation
from ddtree.server.choice import Named, Piece
from ddtree.server.intake import Ask
from ddtree.server.speech import Call

Json = dict[str, Any]

FINGERPRINT = f"ddtree-{__version__}"


@dataclass(frozen=True)
class Counts:
    """Tokens of one HTTP request, all its choices together, and how they were found."""

    prompt: int
    reused: int  # of the prompts, found in the cache
    completion: int
    speculation: Speculation


def head(ask: Ask, *, chunk: bool) -> Json:
    kind = "chat.completion" if ask.chat else "text_completion"
    return {
        "id": ask.id,
        "object": f"{kind}.chunk" if ask.chat and chunk else kind,
        "created": ask.created,
        "model": ask.model,
        "system_fingerprint": FINGERPRINT,
    }


def whole_choice(ask: Ask, index: int, pieces: Sequence[Piece]) -> Json:
    text = "".join(piece.text for piece in pieces)
    thought = "".join(piece.thought for piece in pieces)
    calls = [call for piece in pieces for call in piece.calls]
    said: Json = {"index": index, "logprobs": None, "finish_reason": pieces[-1].finish}
    if ask.chat:
        content = text if text or not calls else None
        said["message"] = {"role": "assistant", "content": content, "refusal": None}
        if thought:
            said["message"]["reasoning_content"] = thought
        if calls:
            said["message"]["tool_calls"] = [tool_call(call) for call in calls]
    else:
        said["text"] = text
    if ask.requests[index].logprobs is not None:
        said["logprobs"] = logprobs(ask, [named for piece in pieces for named in piece.logprobs])
    return said


def tool_call(call: Call) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def final_usage(counts: Counts) -> Json:
    found = counts.speculation
    details = {
        "accepted_prediction_tokens": found.accepted,
        "rejected_prediction_tokens": found.drafted - found.accepted,
    }
    return {
        "prompt_tokens": counts.prompt,
        "completion_tokens": counts.completion,
        "total_tokens": counts.prompt + counts.completion,
        "prompt_tokens_details": {"cached_tokens": counts.reused},
        "completion_tokens_details": details,
        "speculative": speculative(found),
    }


def speculative(found: Speculation) -> Json:
    return {
        "verify_steps": found.verify_steps,
        "drafted": found.drafted,
        "accepted": found.accepted,
        "accepted_per_position": list(found.accepted_per_position),
    }


def total(parts: Iterable[Speculation]) -> Speculation:
    parts = tuple(parts)
    if len(parts) == 1:
        return parts[0]
    positions = zip_longest(*(part.accepted_per_position for part in parts), fillvalue=0)
    return Speculation(
        verify_steps=sum(part.verify_steps for part in parts),
        drafted=sum(part.drafted for part in parts),
        accepted=sum(part.accepted for part in parts),
        accepted_per_position=tuple(sum(counts) for counts in positions),
    )


def logprobs(ask: Ask, named: Sequence[Named]) -> Json:
    return _chat_logprobs(named) if ask.chat else _completion_logprobs(ask, named)


def _chat_logprobs(named: Sequence[Named]) -> Json:
    return {"content": [_entry(one) for one in named], "refusal": None}


def _entry(one: Named) -> Json:
    tops = [_scored(token, logprob) for token, logprob in one.top]
    return {**_scored(one.token, one.logprob), "top_logprobs": tops}


def _scored(token: bytes, logprob: float) -> Json:
    return {"token": token.decode(errors="replace"), "logprob": logprob, "bytes": list(token)}


def _completion_logprobs(ask: Ask, named: Sequence[Named]) -> Json:
    tops = [{_legible(token): logprob for token, logprob in one.top} for one in named]
    return {
        "tokens": [_legible(one.token) for one in named],
        "token_logprobs": [one.logprob for one in named],
        "top_logprobs": tops if ask.requests[0].logprobs else None,
        "text_offset": [one.offset for one in named],
    }


def _legible(token: bytes) -> str:
    """This shape has no bytes: part of a character is spelled, or two would look the same."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)
