"""One HTTP request and its engine requests: submit, hear, put together, let go."""

from __future__ import annotations

import time
from collections.abc import Callable

from ddtree.core.sequence import Finish, Output
from ddtree.engine.errors import RequestError
from ddtree.server import log
from ddtree.server.answer import Counts, total
from ddtree.server.choice import Choice, Piece
from ddtree.server.errors import ApiError, generation_failed, refused, unavailable
from ddtree.server.inbox import Arrival, Inbox
from ddtree.server.intake import Ask
from ddtree.server.metrics import Timeline
from ddtree.server.seam import Loaded
from ddtree.server.service import Service

Pieces = list[tuple[int, Piece]]  # by choice index


class Exchange:
    """Lives on the event loop. Whatever happens after `open`, `close` must follow."""

    def __init__(self, service: Service, loaded: Loaded, ask: Ask, started: float) -> None:
        self.ask = ask
        self._service = service
        self._loaded = loaded
        self._started = started
        self._choices = [
            Choice(
                loaded.tokenizer,
                ask.stops,
                request.stop_token_ids,
                ask.speech(index),
                logprobs=request.logprobs is not None,
            )
            for index, request in enumerate(ask.requests)
        ]
        self._timelines = [Timeline(service.metrics, started) for _ in ask.requests]
        self._inbox = Inbox(self._hear)
        self._submitted = 0
        self._open = len(ask.requests)  # choices that go on
        self.completion_tokens = 0
        self._failure: ApiError | None = None

    def open(self) -> None:
        """Hand the requests to the engine; if it refuses one, none is left behind."""
        self._service.enter(self.fail)
        try:
            for index, request in enumerate(self.ask.requests):
                self._loaded.engine.submit(request, self._inbox, index)
                self._submitted += 1
        except RequestError as error:
            self._failure = refused(error)
            self.close()
            raise self._failure from None

    def listen(self, bell: Callable[[], None]) -> None:
        """Ring from now on when something came, and a first time for what did already."""
        self._inbox.bell = bell
        bell()

    async def wait(self) -> Pieces:
        """What came since the last time, as soon as something did. Raises ApiError."""
        return self._fed(await self._inbox.take())

    def pieces(self) -> Pieces:
        """The same without waiting."""
        return self._fed(self._inbox.taken())

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return not self._open

    def counts(self) -> Counts:
        return Counts(
            prompt=self.ask.prompt_tokens,
            # like the prompt, once a prompt: by its first choice, the others find it anyway
            reused=sum(choice.reused for choice in self._choices[:: self.ask.choices]),
            completion=self.completion_tokens,
            speculation=total(choice.speculation for choice in self._choices),
        )

    def fail(self, error: ApiError) -> None:
        self._failure = self._failure or error
        self._inbox.fail(self._failure)

    def close(self) -> None:
        """Free what the engine still holds for a client that is gone or was refused."""
        now = time.monotonic()
        reason = Finish.ABORT.value if self._failure is None else Finish.ERROR.value
        for index in range(self._submitted):
            if self._choices[index].finish is None:
                self._choices[index].finish = reason
                self._timelines[index].end(reason, now)
                self._loaded.engine.abort(self.ask.requests[index].id)
        self._service.leave(self.fail)
        self._log(now)

    def _hear(self, index: int, output: Output, at: float) -> None:
        if self._choices[index].finish is None:
            self._timelines[index].hear(output, at)

    def _fed(self, arrivals: dict[int, Arrival]) -> Pieces:
        return [
            (index, self._feed(index, arrival))
            for index, arrival in arrivals.items()
            if self._choices[index].finish is None
        ]

    def _feed(self, index: int, arrival: Arrival) -> Piece:
        if arrival.finish is Finish.ERROR:
            self._failure = generation_failed(arrival.error)
            raise self._failure
        if arrival.finish is Finish.ABORT:  # not by us: the engine is being stopped
            self._failure = unavailable(self._service.status)
            raise self._failure
        choice = self._choices[index]
        piece = choice.feed(arrival)
        self.completion_tokens += len(arrival.tokens)
        if choice.finish is not None:
            self._open -= 1
            self._timelines[index].end(choice.finish, time.monotonic())
        if choice.stopped and arrival.finish is None:
            self._loaded.engine.abort(self.ask.requests[index].id)
        return piece

    def _log(self, now: float) -> None:
        counts = self.counts()
        first = min((line.first for line in self._timelines if line.first), default=None)
        steps = counts.speculation.verify_steps
        log.info(
            "request",
            id=self.ask.id,
            stream=self.ask.stream,
            choices=len(self._choices),
            prompt_tokens=counts.prompt,
            reused_tokens=counts.reused,
            completion_tokens=counts.completion,
            finish=",".join(sorted({choice.finish or "refused" for choice in self._choices})),
            ttft_ms=None if first is None else (first - self._started) * 1000,
            e2e_ms=(now - self._started) * 1000,
            accept=1 + counts.speculation.accepted / steps if steps else None,
        )
