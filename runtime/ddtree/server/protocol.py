"""What a client may send: OpenAI's request bodies, checked at the rim.

A parameter that would change the answer and is not supported is an error that names it; only
those that change nothing, or that ask for what happens anyway, are accepted silently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from ddtree.config import Mode
from ddtree.server.conversation import Message, Tool, ToolChoice
from ddtree.server.errors import ApiError, bad_request
from ddtree.server.rim import Rim

MAX_CHOICES = 256  # prompts x n of one request

HARMLESS = frozenset(
    {
        "metadata",
        "priority",
        "prompt_cache_key",
        "prompt_cache_retention",
        "request_id",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)

# Values that ask for what this engine does anyway. Any other value is refused. Routers add some:
# SGLang's and vLLM's write out the defaults of SGLang's own fields in whatever they hand on.
NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "add_generation_prompt": (True,),
    "best_of": (1,),
    "continue_final_message": (False,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "include_reasoning": (True,),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "no_stop_trim": (False,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "return_hidden_states": (False,),
    "separate_reasoning": (True,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True, False),
    "stop_token_ids": ([],),
    "stream_reasoning": (True,),
    "suffix": ("",),
    "use_beam_search": (False,),
}

# Where pydantic's own words would list every member of a union.
EXPECTED: Mapping[int | str, str] = {
    "prompt": "a string, a list of strings, or token ids",
    "stop": "a string or a list of strings, none of them empty",
    "content": "a string or a list of text parts",
    "tool_choice": '"none", "auto", "required" or a function of `tools`',
}


class StreamOptions(Rim):
    include_usage: bool = False
    continuous_usage_stats: bool = False
    include_obfuscation: bool = False  # padding against traffic analysis: never sent


class Speculative(Rim):
    """Not OpenAI's: how to decode this request, within what the server was started with."""

    mode: Mode | None = None
    budget: int | None = Field(default=None, ge=1, le=256)


StopString = Annotated[str, Field(min_length=1, max_length=1000)]


class Body(Rim):
    """What both endpoints understand."""

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=-1, lt=2**31)  # 0 and -1: all
    min_p: float = Field(default=0.0, ge=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    n: int = Field(default=1, ge=1, le=128)
    stop: StopString | Annotated[list[StopString], Field(max_length=16)] = Field(
        default_factory=list
    )
    ignore_eos: bool = False
    speculative: Speculative = Speculative()

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class CompletionBody(Body):
    prompt: (
        str
        | Annotated[list[str], Field(min_length=1)]
        | Annotated[list[int], Field(min_length=1)]
        | Annotated[list[list[int]], Field(min_length=1)]
    )
    logprobs: int | None = Field(default=None, ge=0, le=20)

    @property
    def prompts(self) -> list[str | list[int]]:
        """Texts or token ids, one for each answer asked for (times n)."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        ids = [item for item in self.prompt if isinstance(item, int)]
        if ids:
            return [ids]
        return [item for item in self.prompt if not isinstance(item, int)]


class ChatBody(Body):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=20)
    tools: list[Tool] = Field(default_factory=list)
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    # vLLM's and SGLang's name: a template's own switches, like `enable_thinking`
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)


AnyBody = TypeVar("AnyBody", CompletionBody, ChatBody)


def parse(data: bytes, kind: type[AnyBody]) -> AnyBody:
    """The checked body, or an ApiError that names the parameter at fault."""
    given = _without_the_inert(_object(data))
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _explained(error) from None


def _object(data: bytes) -> dict[str, Any]:
    try:
        given = json.loads(data, parse_constant=_no_constant)
        if b"\\ud" in data.lower():  # half a surrogate pair is JSON, but no text
            json.dumps(given, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(given, dict):
        raise bad_request("the body must be a JSON object", code="invalid_json")
    return given


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _without_the_inert(given: dict[str, Any]) -> dict[str, Any]:
    """Drop nulls and parameters that change nothing; refuse what would change the answer."""
    kept = {}
    for name, value in given.items():
        if value is None or name in HARMLESS:
            continue
        if name not in NEUTRAL:
            kept[name] = value
        elif value not in NEUTRAL[name]:
            raise bad_request(
                f"`{name}` is not supported by this engine; leave it out",
                name,
                "unsupported_parameter",
            )
    if isinstance(messages := kept.get("messages"), list):
        kept["messages"] = [_without_empties(message) for message in messages]
    return kept


def _without_empties(message: object) -> object:
    """An answer sent back as history carries `refusal: null`, `annotations: []` and the like."""
    if not isinstance(message, dict):
        return message
    return {name: value for name, value in message.items() if value is not None and value != []}


def _explained(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = [part for part in first["loc"] if _is_name(part)]
    param = _param(path)
    if first["type"] == "missing":
        return bad_request(f"`{param}` is missing", param, "missing_parameter")
    for at, name in enumerate(path):
        if name in EXPECTED:
            param = _param(path[: at + 1])
            return bad_request(f"`{param}` must be {EXPECTED[name]}", param, "invalid_type")
    if first["type"] == "extra_forbidden":
        return bad_request(f"`{param}` is not a known parameter", param, "unknown_parameter")
    said = first["msg"][:1].lower() + first["msg"][1:]
    return bad_request(f"`{param}`: {said}", param, "invalid_value")


def _is_name(part: int | str) -> bool:
    """Pydantic puts the tried members of a union into the path: they are no names."""
    return isinstance(part, int) or part.isidentifier()


def _param(path: list[int | str]) -> str:
    """`messages[0].role`"""
    first, *rest = path
    return str(first) + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in rest)
