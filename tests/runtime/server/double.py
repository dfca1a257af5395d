"""An engine without a model: a real thread that plays scripted steps at a planted pace.

It keeps the engine's promises: outputs on a thread of its own, a last output for every request,
pages held from submit to the end. Tokens are bytes, so that a step may end inside a character.
"""

from __future__ import annotations

import codecs
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ddtree.config import EngineConfig, ModelShape
from ddtree.core.sequence import Finish, Output, Request, Speculation, TokenLogprob
from ddtree.engine.admission import Limits
from ddtree.engine.errors import RequestError
from ddtree.engine.stats import EngineStats
from ddtree.server.chat import ChatTemplate
from ddtree.server.dialect import choose
from ddtree.server.seam import Words

EOS = 256
SHAPE = ModelShape(
    family="double",
    vocab_size=257,
    hidden_size=1,
    intermediate_size=1,
    num_layers=1,
    num_heads=1,
    num_kv_heads=1,
    head_dim=1,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    max_positions=4096,
    tied_embeddings=True,
)

CONFIG = EngineConfig(model="double", mode="ddtree", drafter="prompt-lookup", context_length=2000)
LIMITS = Limits(depth=15, vocab_size=257, longest=1995)
NOTHING = Speculation()
NO_SWITCHES: Mapping[str, Any] = MappingProxyType({})

Script = Callable[[Request], Iterator[Sequence[int]]]


def saying(text: str, *, step: int = 3, end: bool = True) -> Script:
    """Every answer is `text`, `step` tokens at a time, and then the end."""

    def script(_: Request) -> Iterator[Sequence[int]]:
        tokens = [*text.encode(), *([EOS] if end else [])]
        for at in range(0, len(tokens), step):
            yield tokens[at : at + step]

    return script


HELLO = saying("Hello, world!")


def endless(_: Request) -> Iterator[Sequence[int]]:
    while True:
        yield b"abc "


class Detokenizer:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_ids: Sequence[int]) -> str:
        return self._decoder.decode(bytes(token for token in token_ids if token < 256))

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class ByteTokenizer:
    eos_ids = frozenset({EOS})
    vocab_size = 257

    def encode(self, text: str, *, special: bool) -> list[int]:
        del special
        return list(text.encode())

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else b"<eos>"

    def detokenizer(self) -> Detokenizer:
        return Detokenizer()


class Chat:
    def render(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[dict[str, Any]] = (),
        switches: Mapping[str, Any] = NO_SWITCHES,
    ) -> str:
        del tools, switches
        if messages[0]["role"] == "assistant":
            raise ValueError("the user speaks first")
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        return "".join(lines) + ("assistant: " if add_generation_prompt else "")


@dataclass
class _Running:
    request: Request
    on_output: Callable[[Output], None]
    steps: Iterator[Sequence[int]]
    made: int = 0
    speculation: Speculation = NOTHING


def nothing() -> None:
    """Until a server listens."""


@dataclass
class Double:
    """`kv_used` is the share of 100 places that requests hold."""

    script: Script = HELLO
    step_s: float = 0.0
    gate: threading.Semaphore | None = None  # each step takes one permit
    config: EngineConfig = CONFIG
    shape: ModelShape = SHAPE
    device: str = "cpu"
    dtype: str = "float32"
    limits: Limits = LIMITS
    failure: str | None = None
    error: str | None = None  # of every request, at its second step
    reused: int = 0  # tokens of every prompt that it says it found in its cache
    dies_at: tuple[int, str] | None = None  # step, reason
    seen: list[Request] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        self.on_step: Callable[[], None] = nothing
        self._running: dict[str, _Running] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._ended = threading.Event()
        self._total = NOTHING
        self._counts = [0, 0]  # prompt and generated tokens
        self._thread = threading.Thread(target=self._run, name="double", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        self._ended.wait()

    def stop(self, *, drain: bool, timeout_s: float) -> None:
        del drain
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def die(self, reason: str) -> None:
        """As a kernel that failed: no last output for anybody."""
        self.failure = reason
        self.stop(drain=False, timeout_s=5)

    def submit(self, request: Request, on_output: Callable[[Output], None]) -> None:
        if bytes(request.prompt).startswith(b"refuse"):
            raise RequestError("the prompt does not fit into the cache", "prompt")
        with self._changed:
            self.seen.append(request)
            self._counts[0] += len(request.prompt)
            self._running[request.id] = _Running(request, on_output, self.script(request))
            self._changed.notify_all()

    def abort(self, request_id: str) -> None:
        with self._changed:
            if (one := self._running.pop(request_id, None)) is not None:
                self.aborted.append(request_id)
                one.on_output(Output(request_id, (), finish=Finish.ABORT))
            self.on_step()

    def stats(self) -> EngineStats:
        return EngineStats(
            running=len(self._running),
            waiting=0,
            kv_used=len(self._running) / 100,
            prompt_tokens=self._counts[0],
            reused_tokens=self.reused * len(self.seen),
            generation_tokens=self._counts[1],
            preemptions=0,
            prefills=len(self.seen),
            steps={0: 0, 8: self._total.verify_steps},
            speculation=self._total,
        )

    def _run(self) -> None:
        try:
            self._steps()
        finally:
            self._ended.set()

    def _steps(self) -> None:
        while True:
            with self._changed:
                while not self._running and not self._stopping:
                    self._changed.wait()
                if self._stopping:
                    return
            if self.gate is not None and not self.gate.acquire(timeout=0.1):
                continue
            with self._changed:
                for one in list(self._running.values()):
                    self._step(one)
                self.steps += 1
                self.on_step()
                if self.dies_at is not None and self.steps == self.dies_at[0]:
                    self.failure = self.dies_at[1]
                    return
            time.sleep(self.step_s)

    def _step(self, one: _Running) -> None:
        request = one.request
        wanted = list(next(one.steps, ()))[: request.max_tokens - one.made]
        ends = [at for at, token in enumerate(wanted) if token in request.stop_token_ids]
        tokens = tuple(wanted[: ends[0] + 1] if ends else wanted)
        failed = self.error is not None and one.made > 0
        one.made += len(tokens)
        self._counts[1] += len(tokens)
        one.speculation = _counted(one.speculation, len(tokens))
        self._total = _counted(self._total, len(tokens))
        finish = Finish.STOP if ends else None
        if finish is None and (one.made >= request.max_tokens or not wanted):
            finish = Finish.LENGTH
        if failed:
            finish, tokens = Finish.ERROR, ()
        output = Output(
            request.id,
            tokens,
            logprobs=_logprobs(request, tokens),
            finish=finish,
            error=self.error if failed else None,
            speculation=one.speculation,
            reused=self.reused,
        )
        if finish is not None:
            del self._running[request.id]
        one.on_output(output)


def _counted(before: Speculation, tokens: int) -> Speculation:
    """A step of 4 nodes that committed `tokens`, the bonus included."""
    accepted = max(tokens - 1, 0)
    return Speculation(
        verify_steps=before.verify_steps + 1,
        drafted=before.drafted + 4,
        accepted=before.accepted + accepted,
        accepted_per_position=tuple(
            count + (at < accepted)
            for at, count in enumerate(before.accepted_per_position or (0, 0, 0, 0))
        ),
    )


def _logprobs(request: Request, tokens: Sequence[int]) -> tuple[TokenLogprob, ...] | None:
    """Each token has probability 1/2, and `x` and `y` a quarter each."""
    if request.logprobs is None:
        return None
    top = ((ord("x"), math.log(0.25)), (ord("y"), math.log(0.25)))[: request.logprobs]
    return tuple(TokenLogprob(token, math.log(0.5), top) for token in tokens)


def words(template: str | None = None) -> Words:
    """With a chat template as a model brings it, or one that only joins the messages."""
    if template is None:
        return Words(ByteTokenizer(), Chat())
    chat = ChatTemplate(template, {}, Path("model"))
    return Words(ByteTokenizer(), chat, choose(template))
