"""Counters as engines expose them, and what two readings of them say."""

from __future__ import annotations

from ddops.bench.counters import Speculation, parse, speculation

DDTREE = """\
# HELP ddtree:spec_decode_num_drafts_total verify steps
# TYPE ddtree:spec_decode_num_drafts_total counter
ddtree:spec_decode_num_drafts_total{model="m"} 10.0
ddtree:spec_decode_num_draft_tokens_total{model="m"} 80.0
ddtree:spec_decode_num_accepted_tokens_total{model="m"} 25.0
ddtree:spec_decode_num_accepted_tokens_per_pos_total{model="m",position="1"} 9.0
ddtree:spec_decode_num_accepted_tokens_per_pos_total{model="m",position="0"} 1e1
ddtree:generation_tokens_total{model="m"} 36.0
ddtree:generation_tokens_created{model="m"} 1.7e9
ddtree:time_to_first_token_seconds_bucket{le="0.1"} 3.0
ddtree:time_to_first_token_seconds_sum 0.5
process_cpu_seconds_total 4.0
"""


def test_keeps_the_samples_of_engines_and_drops_buckets_and_dates() -> None:
    samples = parse(DDTREE)
    assert samples['ddtree:generation_tokens_total{model="m"}'] == 36.0
    assert samples["ddtree:time_to_first_token_seconds_sum"] == 0.5
    assert not [name for name in samples if "bucket" in name or "created" in name]
    assert "process_cpu_seconds_total" not in samples


def test_counts_from_nothing_are_the_readings_themselves() -> None:
    assert speculation({}, parse(DDTREE)) == Speculation(10, 80, 25, (10, 9), 36)


def test_a_difference_of_equal_readings_is_zero() -> None:
    samples = parse(DDTREE)
    assert speculation(samples, samples) == Speculation(0, 0, 0, (0, 0), 0)


def test_all_label_sets_of_a_counter_are_added_up() -> None:
    name = "vllm:spec_decode_num_drafts_total"
    seen = parse(f'{name}{{engine="0"}} 3.0\n{name}{{engine="1"}} 4.0\n')
    assert speculation({}, seen).steps == 7


def test_a_counter_that_fell_belongs_to_another_process() -> None:
    name = "ddtree:spec_decode_num_drafts_total"
    assert speculation({name: 50.0}, {name: 3.0}).steps is None


def test_an_engine_we_do_not_know_has_no_counters() -> None:
    assert parse("tgi:spec_accept_length 4.4\n") == {}
    assert speculation({}, {}) == Speculation(None, None, None, (), None)


def test_sglang_counts_no_accepted_drafts_so_they_follow_from_its_answers() -> None:
    """Three answers of 20 tokens from 15 steps: 3 first tokens, 15 bonuses, 42 accepted."""
    seen = parse(
        "sglang:spec_verify_calls_total 15\n"
        "sglang:generation_tokens_total 60\n"
        "sglang:num_requests_total 3\n"
        "sglang:spec_accept_length 9.9\n"
    )
    assert speculation({}, seen) == Speculation(15, None, 42, (), 60)


def test_sglang_without_speculation_has_accepted_nothing() -> None:
    seen = parse("sglang:generation_tokens_total 60\nsglang:num_requests_total 3\n")
    assert speculation({}, seen).accepted is None
