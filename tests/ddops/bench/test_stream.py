"""The bytes of a streamed answer become a trace with the right times and token counts."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddops.bench.stream import Transcript

SENT, OPENED = 100.0, 99.5


def event(text: str = "", total: int | None = None, **choice: Any) -> bytes:
    body: dict[str, Any] = {"choices": [{"delta": {"content": text}, **choice}]}
    if total is not None:
        body["usage"] = usage(total)
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def usage(total: int) -> dict[str, int]:
    return {"prompt_tokens": 5, "completion_tokens": total}


def closing(total: int) -> bytes:
    said = {"choices": [], "usage": usage(total)}
    return b"data: " + json.dumps(said).encode() + b"\n\ndata: [DONE]\n\n"


def heard(*reads: tuple[float, bytes], ended: bool = True) -> Transcript:
    transcript = Transcript("p")
    transcript.sent = SENT
    for at, data in reads:
        transcript.feed(data, SENT + at)
    if ended:
        transcript.end(SENT + 9.0)
    return transcript


def chunks(transcript: Transcript) -> list[tuple[float, int]]:
    return [(chunk.at, chunk.tokens) for chunk in transcript.trace(OPENED).chunks]


def test_tokens_of_a_chunk_are_differences_of_running_usage() -> None:
    transcript = heard(
        (0.1, event("", 0)),  # the role, before any token
        (0.2, event("a", 1)),
        (0.3, event("bcd", 5)),
        (0.4, event("", 6, finish_reason="stop") + closing(6)),
    )
    trace = transcript.trace(OPENED)
    assert chunks(transcript) == [(0.2, 1), (0.3, 4), (0.4, 1)]
    assert (trace.first, trace.last, trace.sent) == (0.2, 0.4, 0.5)
    assert (trace.prompt_tokens, trace.completion_tokens) == (5, 6)
    assert (trace.finish_reason, trace.error) == ("stop", None)
    assert trace.tokens_from == "every-chunk"
    assert trace.text_sha256 == hashlib.sha256(b"abcd").hexdigest()


def test_events_of_one_read_arrived_together() -> None:
    transcript = heard((0.2, event("a", 1) + event("b", 3)), (0.3, event("", 3, finish_reason="x")))
    assert chunks(transcript) == [(0.2, 1), (0.2, 2)]


def test_an_end_token_that_only_the_closing_usage_names_is_not_lost() -> None:
    transcript = heard((0.2, event("a", 2)), (0.4, event("", 2, finish_reason="stop") + closing(3)))
    assert chunks(transcript) == [(0.2, 2), (0.4, 1)]


def test_without_running_usage_the_total_is_shared_out_and_marked() -> None:
    texts = [(0.1 * n, event("x")) for n in range(1, 4)]
    transcript = heard(*texts, (0.4, event("", None, finish_reason="length") + closing(8)))
    assert chunks(transcript) == [(0.1, 2), (0.2, 3), (0.3, 3)]
    assert transcript.trace(OPENED).tokens_from == "final-usage"


def test_usage_in_the_last_chunk_alone_says_nothing_about_the_others() -> None:
    transcript = heard((0.1, event("x")), (0.2, event("y", 6, finish_reason="length")))
    assert chunks(transcript) == [(0.1, 3), (0.2, 3)]
    assert transcript.trace(OPENED).tokens_from == "final-usage"


def test_without_any_usage_a_request_counts_as_failed() -> None:
    trace = heard((0.1, event("x", finish_reason="stop"))).trace(OPENED)
    assert trace.error is not None
    assert "no usage" in trace.error
    assert trace.tokens_from == "nothing"
    assert trace.chunks == ()


def test_reasoning_is_part_of_the_answer() -> None:
    said = {"choices": [{"delta": {"reasoning_content": "hm"}}], "usage": usage(2)}
    thought = b"data: " + json.dumps(said).encode() + b"\n\n"
    trace = heard((0.1, thought), (0.2, event("a", 3, finish_reason="stop"))).trace(OPENED)
    assert trace.first == 0.1
    assert trace.text_sha256 == hashlib.sha256(b"hma").hexdigest()


def test_a_stream_that_stops_in_the_middle_is_an_error_and_a_lost_connection() -> None:
    transcript = heard((0.1, event("a", 1)))
    assert transcript.lost
    assert transcript.error == "the stream ended without a finish reason"


def test_the_first_error_is_the_one_that_is_told() -> None:
    transcript = heard((0.1, b'data: {"error": {"message": "CUDA error"}}\n\n'))
    assert transcript.error == "the engine sent an error: CUDA error"
    assert not transcript.lost


def test_the_marks_of_two_answers_agree_up_to_the_chunk_in_which_they_part() -> None:
    def marks(*texts: str) -> str:
        events = [event(text, total) for total, text in enumerate(texts, start=1)]
        reads = [(0.1 * number, one) for number, one in enumerate(events)]
        said = heard(*reads, (1.0, event("", finish_reason="stop") + closing(len(texts))))
        return said.trace(OPENED).text_marks or ""

    one, other = marks("a", "bc", "d"), marks("a", "bx", "d")
    assert len(one) == len(other) == 12
    assert one[:4] == other[:4]
    assert one[4:8] != other[4:8]
    assert one[8:] != other[8:]  # of the whole text so far, so they never agree again


def test_a_chunk_that_is_not_json_is_an_error() -> None:
    assert heard((0.1, b"data: {oops\n\n")).error == "a chunk is not JSON: b'{oops'"


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=20),
    cuts=st.lists(st.integers(1, 2000), max_size=12),
    newline=st.sampled_from([b"\n", b"\r\n"]),
)
def test_how_the_network_cuts_the_bytes_does_not_matter(
    counts: list[int], cuts: list[int], newline: bytes
) -> None:
    totals = [sum(counts[: n + 1]) for n in range(len(counts))]
    data = b"".join(event("ü" * n, total) for n, total in zip(counts, totals, strict=True))
    data += event("", totals[-1], finish_reason="length") + closing(totals[-1])
    data = data.replace(b"\n", newline)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reads = [(0.1, data[a:b]) for a, b in pairwise(edges)]
    transcript = heard(*reads)
    assert [tokens for _, tokens in chunks(transcript)] == counts
    assert transcript.text == "ü" * totals[-1]
    assert transcript.error is None


@given(total=st.integers(0, 500), texts=st.integers(1, 60))
def test_sharing_out_loses_no_token_and_is_even(total: int, texts: int) -> None:
    reads = [(0.1 + 0.01 * n, event("x")) for n in range(texts)]
    transcript = heard(*reads, (2.0, event("", None, finish_reason="stop") + closing(total)))
    shares = [tokens for _, tokens in chunks(transcript)]
    assert sum(shares) == total
    assert not shares or max(shares) - min(shares) <= 1
