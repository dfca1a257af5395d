"""What was measured: one record a cell, failed cells included. Versioned data.

Definitions (docs/numbers.md): times are seconds on the client's monotonic clock, counted from
the moment a request was sent; a chunk is not a token, so every chunk carries its token count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from ddops.spec.base import Word, is_none
from ddops.spec.chunks import Chunk as Chunk
from ddops.spec.chunks import Chunks, said
from ddops.spec.deployment import Deployment
from ddops.spec.matrix import Cell, Load
from ddops.spec.telemetry import Telemetry

SCHEMA_VERSION = 1

TokensFrom = Literal["every-chunk", "final-usage", "nothing"]
"""How tokens per chunk are known: the engine's running usage in every chunk; its final usage
shared out over the chunks (then the times between tokens are approximate); or not at all."""


_Columns = Annotated[
    Sequence[Chunk],
    PlainValidator(Chunks.read),
    PlainSerializer(said),
    WithJsonSchema({"type": "array", "items": {"required": ["at", "tokens"]}}),
]


class Trace(Word):
    """One request as the client saw it."""

    prompt: str  # id of the prompt in its set
    sent: float  # seconds since the window opened
    due: float | None = None  # when an open loop meant to send it, seconds since the window opened
    first: float | None  # seconds since sent, first token
    last: float | None  # seconds since sent, last token
    chunks: _Columns  # those that brought tokens
    tokens_from: TokensFrom = "every-chunk"
    prompt_tokens: int | None
    completion_tokens: int | None
    finish_reason: str | None
    text_sha256: str | None  # of the answer's text: equal answers have equal digests
    text_marks: str | None = Field(default=None, exclude_if=is_none)
    """Four hex digits a chunk, of the CRC-32 of the text up to its end: where answers part."""
    error: str | None


class Spread(Word):
    """A distribution over the requests of one cell."""

    mean: float
    std: float
    min: float
    p50: float
    p90: float
    p99: float
    max: float
    n: int


class Metrics(Word):
    """Derived from traces and counters alone; `ddops bundle verify` computes them again."""

    duration_s: float
    completed: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    output_tok_s: float
    ttft_s: Spread | None
    tpot_s: Spread | None  # (last - first) / (tokens - 1), per request
    itl_s: Spread | None  # between tokens; the tokens of one chunk arrive together
    e2e_s: Spread | None
    concurrency_achieved: float  # sum of e2e / duration
    accept: float | None  # mean tokens committed per target step, bonus included
    accepted_per_position: tuple[float, ...] | None  # share of verify steps, by draft position
    requests_s: float | None = None  # answers that ended well, per second
    goodput_s: float | None = None  # those of them within the SLO; None without one
    sent_late_s: Spread | None = None  # sent - due, of an open loop


FailureKind = Literal[
    "illegal-access",
    "cublas",
    "out-of-memory",
    "timeout",
    "garbage",
    "jit",
    "nccl",
    "service-died",
    "not-ready",
    "requests-failed",
    "other",
]


class Failure(Word):
    kind: FailureKind
    message: str
    log_tail: str


class Gate(Word):
    """A correctness check. A speed beside a red gate is printed as invalid."""

    name: str  # `garbage`, `lossless`, `alone`, `coding`
    green: bool
    detail: str


class Solved(Word):
    id: str  # of the problem
    passed: bool
    why: str  # not, in a line; empty where it passed


class Coding(Word):
    """One greedy answer to each problem, run with the problem's own tests."""

    problems: str
    problems_sha256: str  # of the file
    solved: tuple[Solved, ...] = Field(min_length=1)

    @property
    def passed(self) -> int:
        return sum(one.passed for one in self.solved)

    @property
    def pass_at_1(self) -> float:
        """The share that one answer solves."""
        return self.passed / len(self.solved)


class EngineSeen(Word):
    """What `/server_info` said, verbatim where it matters."""

    name: str
    version: str
    argv: tuple[str, ...]
    info: dict[str, Any]


class Record(Word):
    schema_version: Literal[1]
    ddops_version: str
    commit: str | None  # of the checkout ddops ran from, with `+dirty`; None for an installed wheel
    box: str
    box_facts_sha256: str
    matrix: str
    matrix_fingerprint: str
    cell: Cell
    load: Load
    prompts_sha256: str
    prompts_licence: str | None = None
    trace_sha256: str | None = None  # of the file of send times
    deployment: Deployment
    unit_sha256: str
    engine: EngineSeen | None
    started_at: str  # UTC, ISO 8601
    window_s: float | None  # length of the measured window
    client_lag_s: Spread | None = None  # how late the client's own event loop woke in the window
    client_processes: int | None = None
    client_cores: float | None = None  # of one core, by the busiest of them in the window
    warnings: tuple[str, ...] = ()  # what bends these numbers, as far as the client can tell
    busy_cores: float | None = None  # in use by others just before, while the service was idle
    traces: tuple[Trace, ...]
    counters_before: dict[str, float]
    counters_after: dict[str, float]
    metrics: Metrics | None
    gates: tuple[Gate, ...]
    coding: Coding | None = Field(default=None, exclude_if=is_none)
    failure: Failure | None
    telemetry: Telemetry | None = Field(default=None, exclude_if=is_none)
    command: tuple[str, ...] = Field(min_length=1)  # the ddops command line that made it

    @property
    def ok(self) -> bool:
        """Without any gate nothing is known of what was measured."""
        green = bool(self.gates) and all(gate.green for gate in self.gates)
        return self.failure is None and green
