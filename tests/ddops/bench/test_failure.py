"""Log lines as engines write them, and the kind of failure they mean."""

from __future__ import annotations

import pytest

from ddops.bench.failure import TAIL_CHARACTERS, Seen, classify, failure_of, not_ready

ALIVE = Seen(error="HTTP 500: planted", alive=True, timed_out=False)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("CUDA error: an illegal memory access was encountered", "illegal-access"),
        ("RuntimeError: CUDA error: misaligned address", "illegal-access"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED", "cublas"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "out-of-memory"),
        ("DefaultCPUAllocator: can't allocate memory: you tried", "out-of-memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "out-of-memory"),
        ("RuntimeError: Not enough memory. Please try --mem-fraction-static", "out-of-memory"),
        ("ValueError: No available memory for the cache blocks.", "out-of-memory"),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300, soft=False)", "timeout"),
        ("fatal error: Python.h: No such file or directory", "jit"),
        ("ptxas fatal   : Value 'sm_103a' is not defined for option 'gpu-name'", "jit"),
        ("ModuleNotFoundError: No module named 'flash_attn.cute'", "jit"),
        ("ncclUnhandledCudaError: Call to CUDA function failed", "nccl"),
        ("CUDA error: system not yet initialized", "nccl"),
    ],
)
def test_a_symptom_in_the_log_names_the_kind(line: str, kind: str) -> None:
    assert classify(f"INFO: started\n{line}\nINFO: bye") == kind


def test_the_cause_wins_over_its_echo() -> None:
    log = "CUBLAS_STATUS_EXECUTION_FAILED\nCUDA error: an illegal memory access was encountered"
    assert classify(log) == "illegal-access"


def test_an_ordinary_log_says_nothing() -> None:
    assert classify("INFO: 127.0.0.1 - POST /v1/chat/completions 200\nmemory: 812 MB") is None


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (ALIVE, "requests-failed"),
        (Seen("connection lost", alive=False, timed_out=False), "service-died"),
        (Seen("not done after 5 s", alive=True, timed_out=True), "timeout"),
    ],
)
def test_without_a_symptom_the_client_says_what_it_saw(seen: Seen, kind: str) -> None:
    assert failure_of(seen, "INFO").kind == kind


def test_a_failure_keeps_the_end_of_the_log() -> None:
    kept = failure_of(ALIVE, "x" * 9000 + "the end").log_tail
    assert len(kept) == TAIL_CHARACTERS
    assert kept.endswith("the end")


def test_a_service_that_does_not_start_is_told_from_one_that_dies() -> None:
    assert not_ready("exit code 2", "bad arguments").kind == "not-ready"
    assert not_ready("exit code 1", "CUDA out of memory").kind == "out-of-memory"
