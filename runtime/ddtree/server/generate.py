"""One answer on the command line: the text as it comes, then the counters of its steps."""

from __future__ import annotations

import queue
import sys
import time
from dataclasses import dataclass

from ddtree.config import EngineConfig
from ddtree.core.sequence import Finish, Output, Request, Sampling
from ddtree.engine.errors import RequestError
from ddtree.server.choice import Choice
from ddtree.server.exits import BAD_ARGUMENTS, DIED, DRAINED, LoadError
from ddtree.server.inbox import Arrival
from ddtree.server.load import load_engine, load_words
from ddtree.server.seam import Words, Working


@dataclass(frozen=True)
class Wish:
    prompt: str
    chat: bool
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    ignore_eos: bool


@dataclass
class Clock:
    """Monotonic seconds, and the tokens that came with the first."""

    asked: float
    first: float | None = None
    first_tokens: int = 0
    last: float = 0.0

    def hear(self, tokens: int) -> None:
        self.last = time.monotonic()
        if self.first is None:
            self.first, self.first_tokens = self.last, tokens


def generate(config: EngineConfig, wish: Wish) -> int:
    """Text on stdout, counters on stderr. Raises LoadError, also for a prompt that cannot be."""
    words = load_words(config.model)
    engine: Working = load_engine(config)
    request = _request(wish, words)
    engine.start()
    try:
        return _answer(engine, words, request)
    except RequestError as error:
        raise LoadError(str(error), BAD_ARGUMENTS) from error
    finally:
        engine.stop(drain=False, timeout_s=5)


def _request(wish: Wish, words: Words) -> Request:
    text = wish.prompt
    if wish.chat:
        if words.chat is None:
            raise LoadError("this model has no chat template", BAD_ARGUMENTS, "leave out `--chat`")
        text = words.chat.render([{"role": "user", "content": text}])
    return Request(
        id="generate",
        prompt=tuple(words.tokenizer.encode(text, special=True)),
        max_tokens=wish.max_tokens,
        sampling=Sampling(temperature=wish.temperature, top_p=wish.top_p, seed=wish.seed),
        stop_token_ids=frozenset() if wish.ignore_eos else words.tokenizer.eos_ids,
    )


def _answer(engine: Working, words: Words, request: Request) -> int:
    outputs: queue.SimpleQueue[Output] = queue.SimpleQueue()
    clock = Clock(time.monotonic())
    engine.submit(request, outputs.put)
    choice = Choice(words.tokenizer, (), request.stop_token_ids)
    while choice.finish is None:
        output = outputs.get()
        clock.hear(len(output.tokens))
        if output.finish in (Finish.ERROR, Finish.ABORT):
            sys.stderr.write(f"\nerror: {output.error or 'the engine stopped'}\n")
            return DIED
        arrival = Arrival()
        arrival.add(output)
        sys.stdout.write(choice.feed(arrival).text)
        sys.stdout.flush()
    sys.stdout.write("\n")
    sys.stderr.write(_counters(choice, len(request.prompt), clock) + "\n")
    return DRAINED


def _counters(choice: Choice, prompt: int, clock: Clock) -> str:
    first = clock.first or clock.last
    said = [
        f"prompt {prompt} tokens",
        f"first token {first - clock.asked:.3f} s",
        f"answer {choice.tokens} tokens ({choice.finish})",
    ]
    if clock.last > first:
        later = choice.tokens - clock.first_tokens
        said.append(f"{later / (clock.last - first):.1f} tokens/s after the first")
    found = choice.speculation
    if found.verify_steps:
        accept = 1 + found.accepted / found.verify_steps
        said.append(f"accept {accept:.2f} over {found.verify_steps} verify steps")
        said.append(f"drafted {found.drafted}, accepted {found.accepted}")
    return "; ".join(said)
