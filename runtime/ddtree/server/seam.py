"""What the server asks of the engine, the tokenizer and the chat template: protocols only.

The server imports no torch: the engine is a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ddtree.config import EngineConfig, ModelShape
from ddtree.core.sequence import Output, Request, Speculation
from ddtree.engine.admission import Limits
from ddtree.engine.stats import EngineStats
from ddtree.server.dialect import PLAIN, Dialect


class StatsLike(Protocol):
    """A moment of the engine: two gauges, the share of the cache in use, and its counters."""

    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def kv_used(self) -> float: ...  # 0..1
    @property
    def speculation(self) -> Speculation: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def reused_tokens(self) -> int: ...  # of the prompts, found in the cache
    @property
    def generation_tokens(self) -> int: ...
    @property
    def preemptions(self) -> int: ...
    @property
    def prefills(self) -> int: ...  # steps that took in prompts
    @property
    def steps(self) -> Mapping[int, int]: ...  # that decoded, by budget


class Known(Protocol):
    """What an engine turned out to be."""

    @property
    def config(self) -> EngineConfig: ...
    @property
    def shape(self) -> ModelShape: ...
    @property
    def device(self) -> str: ...
    @property
    def dtype(self) -> str: ...


class Ear(Protocol):
    """Hears an answer on the event loop: an output at a time, then a bell for all that came."""

    bell: Callable[[], None]

    def put(self, index: int, output: Output, at: float) -> None:
        """`at`: when the engine sent it, monotonic."""


class EngineLike(Known, Protocol):
    """The engine from the event loop."""

    @property
    def failure(self) -> str | None: ...

    async def ended(self) -> None: ...

    def submit(self, request: Request, ear: Ear, index: int) -> None:
        """Raises RequestError."""

    def abort(self, request_id: str) -> None:
        """Free its pages; a last Output with Finish.ABORT follows."""

    async def stats(self) -> StatsLike: ...


class Working(Known, Protocol):
    """The engine where it runs. Steps run on a thread of its own; every method may be called from
    any thread."""

    on_step: Callable[[], None]  # called when outputs were handed out, on the engine's thread

    @property
    def limits(self) -> Limits: ...
    @property
    def failure(self) -> str | None: ...

    def start(self) -> None: ...

    def wait(self) -> None:
        """Until it has failed or was stopped."""

    def stop(self, *, drain: bool, timeout_s: float) -> None: ...

    def submit(self, request: Request, on_output: Callable[[Output], None]) -> None:
        """`on_output` is called from the engine's thread. Raises RequestError."""

    def abort(self, request_id: str) -> None: ...

    def stats(self) -> EngineStats: ...


class DetokenizerLike(Protocol):
    """The text of one answer, token by token; incomplete characters are held back."""

    def push(self, token_ids: Sequence[int]) -> str: ...

    def flush(self) -> str: ...


class TokenizerLike(Protocol):
    @property
    def eos_ids(self) -> frozenset[int]: ...
    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str, *, special: bool) -> list[int]: ...

    def token_bytes(self, token: int) -> bytes: ...  # may be part of a character

    def detokenizer(self) -> DetokenizerLike: ...


class ChatLike(Protocol):
    def render(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[dict[str, Any]] = (),
        switches: Mapping[str, Any] = ...,
    ) -> str: ...


@dataclass(frozen=True)
class Words:
    """What stands between texts and tokens."""

    tokenizer: TokenizerLike
    chat: ChatLike | None  # None: the model has no chat template
    dialect: Dialect = PLAIN


@dataclass(frozen=True)
class Loaded:
    """A model that can answer."""

    engine: EngineLike
    words: Words

    @property
    def tokenizer(self) -> TokenizerLike:
        return self.words.tokenizer

    @property
    def chat(self) -> ChatLike | None:
        return self.words.chat

    @property
    def dialect(self) -> Dialect:
        return self.words.dialect
