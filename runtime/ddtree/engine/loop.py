"""The engine: one thread that admits, prefills, decodes and answers, until it is told to stop.

Requests come in and outputs go out on this seam only; models and caches are the runner's.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ddtree.config import EngineConfig, ModelShape
from ddtree.core.sequence import Finish, Output, Request, Sequence, Tally
from ddtree.engine.admission import Limits, sequence_of
from ddtree.engine.ending import keep
from ddtree.engine.errors import RequestError
from ddtree.engine.others import NOBODY, Others
from ddtree.engine.prefill import Committed, First
from ddtree.engine.runner import Runner
from ddtree.engine.scheduler import Scheduler
from ddtree.engine.stats import EngineStats
from ddtree.engine.stepper import Ticket

OnOutput = Callable[[Output], None]
OnStep = Callable[[], None]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Submit:
    sequence: Sequence
    on_output: OnOutput


@dataclass(frozen=True)
class _Abort:
    request_id: str


@dataclass(frozen=True)
class _InFlight:
    """A launched step whose tokens the host has not read."""

    sequences: list[Sequence]
    admissions: list[int]
    ticket: Ticket

    @property
    def may_wait(self) -> bool:
        """Log-probabilities lie in buffers that the next step overwrites."""
        return all(sequence.request.logprobs is None for sequence in self.sequences)


class Engine:
    """Thread-safe: `submit`, `abort`, `stats`, `start`, `wait`, `stop`. Outputs come on a thread of
    its own, and `on_step` after those of each step.
    """

    def __init__(self, config: EngineConfig, runner: Runner, scheduler: Scheduler) -> None:
        self.config = config
        self.failure: str | None = None
        self.on_step: OnStep = _nothing
        self._runner = runner
        self._scheduler = scheduler
        self.limits = Limits(runner.depth, self.shape.vocab_size, scheduler.longest)
        self._inbox: queue.SimpleQueue[_Submit | _Abort | None] = queue.SimpleQueue()
        self._listeners: dict[str, OnOutput] = {}
        self._tally = Tally()
        self._speculation = self._tally.total  # after whole steps
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._queued = 0
        self._in_flight: _InFlight | None = None
        self._lock = threading.Lock()
        self._others: Others = NOBODY
        self._closing = threading.Event()
        self._abandon = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ddtree-engine", daemon=True)

    @property
    def shape(self) -> ModelShape:
        return self._runner.models.target.shape

    @property
    def device(self) -> str:
        return str(self._runner.device)

    @property
    def dtype(self) -> str:
        return str(self._runner.pools.target.kv.dtype).removeprefix("torch.")

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and self.failure is None

    def lead(self, others: Others) -> None:
        """Before the start: these ranks do what this one does, and end with it."""
        self._others = self._runner.others = others

    def fail(self, reason: str) -> None:
        """From outside: what a step may be waiting for is gone, so that nobody waits for it."""
        self.failure = self.failure or reason
        self._ended.set()

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Until it has failed, or answers nobody any more."""
        self._ended.wait()

    def stop(self, *, drain: bool, timeout_s: float) -> None:
        """Refuse new requests; finish the running ones (`drain`) or abort them; end the thread."""
        self._closing.set()
        if not drain:
            self._abandon.set()
        self._inbox.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._abandon.set()
            self._inbox.put(None)
            self._thread.join()

    def submit(self, request: Request, on_output: OnOutput) -> None:
        """Queue a request. Raises RequestError when it can never be served."""
        if self._closing.is_set() or self.failure is not None:
            raise RequestError(self.failure or "the engine is shutting down", "engine")
        sequence = sequence_of(request, self.config, self.limits)
        with self._lock:
            self._queued += 1
        self._inbox.put(_Submit(sequence, on_output))

    def abort(self, request_id: str) -> None:
        """Free what the request holds. Unknown or finished ids are ignored."""
        self._inbox.put(_Abort(request_id))

    def stats(self) -> EngineStats:
        scheduler = self._scheduler
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting) + self._queued,
            kv_used=scheduler.allocator.used / scheduler.allocator.pages,
            prompt_tokens=self._prompt_tokens,
            reused_tokens=scheduler.reused,
            generation_tokens=self._generation_tokens,
            preemptions=scheduler.preemptions,
            prefills=self._runner.prefills,
            steps=self._runner.steps.copy(),
            speculation=self._speculation,
        )

    def check_integrity(self) -> None:
        """For tests, when idle: nothing leaked."""
        self._scheduler.check_integrity()

    def _run(self) -> None:
        try:
            with torch.inference_mode():
                while self._turn():
                    pass
        except Exception as error:
            self.failure = self.failure or self._others.explain(error)
            log.exception("engine stopped")
        finally:
            self._closing.set()
            self._end_all()
            self._ended.set()
            self._others.close(self._runner.stepper.release)

    def _turn(self) -> bool:
        """One round: read the inbox, run one step. False when there is nothing left to do."""
        idle = not (self._scheduler.running or self._scheduler.waiting or self._in_flight)
        if idle and self._closing.is_set() and self._inbox.empty():
            return False
        self._read_inbox(wait=idle)
        if self._abandon.is_set():
            return False
        plan = self._scheduler.plan()
        firsts = self._runner.prefill(plan.chunks)
        self._scheduler.written(plan.chunks)
        if not self._runner.lag:
            self._greet(firsts)
        # behind a device nothing is read before the next step is launched: it never waits for us
        launched = self._launch(plan.decode)
        self._collect(self._in_flight)
        if self._runner.lag:
            self._greet(firsts)
        self._in_flight = launched
        if launched is not None and not (self._runner.lag and launched.may_wait):
            self._collect(launched)
            self._in_flight = None
        self.on_step()
        return True

    def _greet(self, firsts: list[First]) -> None:
        """Deliver the first tokens of prompts."""
        for sequence, committed in self._runner.first_tokens(firsts):
            self._deliver(sequence, committed, speculative=False)
        if firsts:
            self.on_step()

    def _launch(self, sequences: list[Sequence]) -> _InFlight | None:
        if not sequences:
            return None
        admissions = [sequence.admissions for sequence in sequences]
        return _InFlight(sequences, admissions, self._runner.launch(sequences))

    def _collect(self, step: _InFlight | None) -> None:
        """Deliver a step, except to sequences that ended or lost their row since it began."""
        if step is None:
            return
        results = self._runner.collect(step.sequences, step.ticket)
        for sequence, admission, committed in zip(
            step.sequences, step.admissions, results, strict=True
        ):
            if sequence.row is not None and sequence.admissions == admission:
                sequence.cached += len(committed.tokens)
                self._deliver(sequence, committed, speculative=sequence.limit > 0)
        self._speculation = self._tally.total

    def _read_inbox(self, *, wait: bool) -> None:
        while True:
            try:
                message = self._inbox.get(block=wait)
            except queue.Empty:
                return
            wait = False
            if isinstance(message, _Submit):
                self._accept(message)
            elif isinstance(message, _Abort):
                sequence = self._scheduler.find(message.request_id)
                if sequence is not None:
                    self._end(sequence, Output(message.request_id, (), finish=Finish.ABORT))

    def _accept(self, message: _Submit) -> None:
        request = message.sequence.request
        self._listeners[request.id] = message.on_output
        self._scheduler.add(message.sequence)
        with self._lock:
            self._queued -= 1
        self._prompt_tokens += len(request.prompt)

    def _deliver(self, sequence: Sequence, committed: Committed, *, speculative: bool) -> None:
        request = sequence.request
        if not committed.healthy:
            error = "the model's logits are not finite (NaN or infinity)"
            output = Output(request.id, (), finish=Finish.ERROR, error=error)
            self._end(sequence, output, poisoned=True)
            return
        kept = keep(sequence, committed.tokens)
        sequence.tokens.extend(kept.tokens)
        self._generation_tokens += len(kept.tokens)
        if speculative:
            for tally in (sequence.tally, self._tally):
                tally.count(drafted=committed.drafted, accepted=len(kept.tokens) - 1)
        output = Output(
            request.id,
            tuple(kept.tokens),
            logprobs=committed.logprobs and committed.logprobs[: len(kept.tokens)],
            finish=kept.finish,
            speculation=sequence.tally.total,
            reused=sequence.reused,
        )
        if kept.finish is not None:
            self._end(sequence, output)
        else:
            self._listeners[request.id](output)

    def _end(self, sequence: Sequence, output: Output, *, poisoned: bool = False) -> None:
        self._scheduler.finish(sequence, poisoned=poisoned)
        self._runner.forget(sequence)
        self._listeners.pop(sequence.request.id)(output)

    def _end_all(self) -> None:
        finish = Finish.ERROR if self.failure else Finish.ABORT
        self._read_inbox(wait=False)
        for request_id, listener in list(self._listeners.items()):
            listener(Output(request_id, (), finish=finish, error=self.failure))
        self._listeners.clear()
        self.on_step()


def _nothing() -> None:
    """Nobody wants to know."""
