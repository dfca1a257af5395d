"""Why a cell failed: the engine's log first, then what the client saw. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddops.spec.record import Failure, FailureKind

TAIL_CHARACTERS = 4000

# The first that fits wins, causes before their echoes: after an illegal access cuBLAS and NCCL
# report failures of their own, and a failed compile ends in a CUDA error.
_PATTERNS: tuple[tuple[FailureKind, str], ...] = (
    ("illegal-access", r"illegal memory access|misaligned address|cudaErrorIllegalAddress"),
    ("jit", r"Python\.h: No such file|ptxas (fatal|error|.*not defined)|ptxas.*sm_\d+a?"),
    ("jit", r"triton\.compiler\.errors|CompilationError|flash_attn\.cute|nvcc fatal"),
    ("out-of-memory", r"CUDA out of memory|OutOfMemoryError|cudaErrorMemoryAllocation"),
    ("out-of-memory", r"can't allocate memory|Cannot allocate memory|MemoryError|bad_alloc"),
    ("out-of-memory", r"[Oo]ut of memory|oom-kill|Killed process"),
    ("out-of-memory", r"Not enough memory|No available memory for the cache blocks"),
    (
        "out-of-memory",
        r"less than desired GPU memory utilization|KV cache is needed, which is larger",
    ),
    ("cublas", r"CUBLAS_STATUS_\w+|cublas\w* failed"),
    ("nccl", r"NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|nvls.*fail"),
    ("timeout", r"[Ww]atchdog timeout"),
    ("nccl", r"[Ff]abric ?[Mm]anager|CUDA error(:| )802|system not yet initialized"),
)


@dataclass(frozen=True)
class Seen:
    """What the client saw of a cell that did not end well."""

    error: str  # the first error of a request, or why the cell was stopped
    alive: bool  # the service still answers
    timed_out: bool


def classify(log: str) -> FailureKind | None:
    """The kind whose symptom stands in `log`; None when the log says nothing we know."""
    found = (kind for kind, pattern in _PATTERNS if re.search(pattern, log))
    return next(found, None)


def failure_of(seen: Seen, log: str) -> Failure:
    return Failure(
        kind=classify(log) or _by_sight(seen), message=seen.error, log_tail=log[-TAIL_CHARACTERS:]
    )


def not_ready(message: str, log: str) -> Failure:
    """The service did not come up with this configuration."""
    return Failure(
        kind=classify(log) or "not-ready", message=message, log_tail=log[-TAIL_CHARACTERS:]
    )


def _by_sight(seen: Seen) -> FailureKind:
    if not seen.alive:
        return "service-died"
    return "timeout" if seen.timed_out else "requests-failed"
