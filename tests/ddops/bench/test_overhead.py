"""What a window says of the client itself."""

from __future__ import annotations

import pytest

from ddops.bench.load import Window
from ddops.bench.metrics import derive, spread
from ddops.bench.overhead import warnings
from ddops.spec.record import Chunk, Metrics, Trace


def trace(late: float | None = None) -> Trace:
    """20 tokens at 50 ms each."""
    return Trace(
        prompt="p",
        sent=1.0 + (late or 0.0),
        due=None if late is None else 1.0,
        first=0.05,
        last=1.0,
        chunks=tuple(Chunk(at=0.05 * n, tokens=1) for n in range(1, 21)),
        prompt_tokens=3,
        completion_tokens=20,
        finish_reason="length",
        text_sha256=None,
        error=None,
    )


def metrics(late: float | None = None) -> Metrics:
    return derive([trace(late)] * 10, 10.0, {}, {})


def window(lag: float = 0.0005, cores: float = 0.2) -> Window:
    return Window(
        traces=(),
        texts=(),
        opened=0.0,
        length_s=10.0,
        client_lag_s=spread([lag] * 100),
        client_cores=cores,
        client_processes=1,
        lost=False,
        timed_out=False,
    )


def test_a_client_with_room_to_spare_says_nothing() -> None:
    assert warnings(window(), metrics()) == ()
    assert warnings(window(), metrics(late=0.001)) == ()


@pytest.mark.parametrize(
    ("seen", "late", "said"),
    [
        (window(cores=0.95), None, "a process of it used 0.95 of a core"),
        (window(lag=0.02), None, "the client wakes 20 ms late (p90), at 50 ms a token"),
        (window(), 0.2, "requests were sent 200 ms late (p90): the asked rate was not kept"),
    ],
)
def test_a_client_that_was_too_slow_says_how(seen: Window, late: float | None, said: str) -> None:
    (told,) = warnings(seen, metrics(late))
    assert said in told


def test_a_lag_that_every_kernel_has_is_none() -> None:
    """4 ms would be more than a tenth of a token's time here, and still says nothing."""
    fast = derive([trace().model_copy(update={"last": 0.1})], 1.0, {}, {})
    assert warnings(window(lag=0.004), fast) == ()
