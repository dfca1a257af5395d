"""`/metrics` and `/server_info`: the names of the seam, and numbers that count tokens."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ddtree.core.sequence import Output
from ddtree.server.metrics import Histogram, Metrics, Timeline
from tests.runtime.server.double import Double
from tests.runtime.server.live import Live, live


def samples(server: Live) -> dict[str, float]:
    with server.http() as client:
        text = client.get("/metrics").text
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_names_and_numbers_of_the_seam() -> None:
    with live(Double(reused=3)) as server:
        server.post("/v1/completions", {"prompt": "four"})
        server.post("/v1/completions", {"prompt": "four", "max_tokens": 7})
        found = samples(server)
    assert {name: value for name, value in found.items() if "seconds" not in name} == {
        "ddtree:num_requests_running": 0,
        "ddtree:num_requests_waiting": 0,
        "ddtree:kv_cache_usage_perc": 0,
        "ddtree:prompt_tokens_total": 8,
        "ddtree:prefix_cache_hits_total": 6,
        "ddtree:generation_tokens_total": 14 + 7,
        "ddtree:num_preemptions_total": 0,
        "ddtree:prefill_steps_total": 2,
        "ddtree:decode_steps_total[0]": 0,
        "ddtree:decode_steps_total[8]": 5 + 3,
        "ddtree:request_success_total[stop]": 1,
        "ddtree:request_success_total[length]": 1,
        "ddtree:spec_decode_num_drafts_total": 5 + 3,
        "ddtree:spec_decode_num_draft_tokens_total": 32,
        "ddtree:spec_decode_num_accepted_tokens_total": 9 + 4,
        "ddtree:spec_decode_num_accepted_tokens_per_pos_total[0]": 5 + 2,
        "ddtree:spec_decode_num_accepted_tokens_per_pos_total[1]": 4 + 2,
        "ddtree:spec_decode_num_accepted_tokens_per_pos_total[2]": 0,
        "ddtree:spec_decode_num_accepted_tokens_per_pos_total[3]": 0,
    }
    assert found["ddtree:time_to_first_token_seconds_count"] == 2
    assert found["ddtree:inter_token_latency_seconds_count"] == 14 + 7 - 2
    assert found["ddtree:e2e_request_latency_seconds_count"] == 2
    assert found["ddtree:e2e_request_latency_seconds_bucket[+Inf]"] == 2


def test_asking_twice_counts_nothing_twice() -> None:
    with live(Double()) as server:
        server.post("/v1/completions", {"prompt": "four"})
        assert samples(server) == samples(server)


def test_the_tokens_of_a_step_share_its_time() -> None:
    metrics = Metrics(lambda: None)
    line = Timeline(metrics, started=10.0)
    line.hear(Output("r", (1,)), at=10.5)
    line.hear(Output("r", (2, 3, 4, 5)), at=10.86)
    line.hear(Output("r", ()), at=11.5)
    line.end("stop", at=12.0)
    text = metrics.text().decode()
    assert "ddtree:time_to_first_token_seconds_sum 0.5" in text
    assert "ddtree:inter_token_latency_seconds_count 4.0" in text
    assert 'ddtree:inter_token_latency_seconds_bucket{le="0.1"} 4.0' in text
    assert 'ddtree:inter_token_latency_seconds_bucket{le="0.075"} 0.0' in text
    assert "ddtree:e2e_request_latency_seconds_sum 2.0" in text


def test_before_there_is_an_engine_only_the_servers_own_metrics_are_there() -> None:
    text = Metrics(lambda: None).text().decode()
    assert "ddtree:e2e_request_latency_seconds_count 0.0" in text
    assert "ddtree:generation_tokens" not in text


@pytest.mark.parametrize(
    ("value", "counts"),
    [(0.5, [3, 3, 3]), (1.0, [3, 3, 3]), (1.5, [0, 3, 3]), (2.0, [0, 3, 3]), (9, [0, 0, 3])],
)
def test_a_bucket_holds_what_is_at_most_its_bound(value: float, counts: list[int]) -> None:
    histogram = Histogram("h", "help", (1.0, 2.0))
    histogram.observe(value, times=3)
    assert [s.value for s in histogram.family().samples if s.name == "h_bucket"] == counts


def test_server_info_says_what_runs_here(server: Live) -> None:
    with server.http() as client:
        said = client.get("/server_info").json()
    assert said["engine"] == "ddtree"
    assert (said["device"], said["dtype"], said["mode"], said["budget"]) == (
        "cpu", "float32", "ddtree", 16,
    )  # fmt: skip
    assert said["model"]["path"] == "double"
    assert said["model"]["shape"]["vocab_size"] == 257
    assert said["limits"] == {
        "context_length": 2000,
        "max_running_requests": 8,
        "kv_tokens": 16_000,
        "page_size": 16,
    }
    assert set(said["speculation"]) == {
        "verify_steps", "drafted", "accepted", "accepted_per_position",
    }  # fmt: skip
    assert said["torch"] and said["version"] and said["started_at"]
