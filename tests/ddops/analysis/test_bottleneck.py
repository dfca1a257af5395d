"""Bottlenecks of the field record's cells and of made-up ones, each with its reason.

How a record becomes signs (`signs.py`) is seen here too.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddops.analysis.bottleneck import Kind, Signs, judge, thresholds
from ddops.analysis.cost import exchange, floor
from ddops.analysis.cost.catalogue import field_record, link, processor, target
from ddops.analysis.signs import bottleneck, signs_of
from ddops.analysis.telemetry import Expected, absent, telemetry
from ddops.spec.cost import Measured
from ddops.spec.record import EngineSeen, Record
from ddops.spec.telemetry import Telemetry
from tests.ddops import records, sampled

BUSY = Signs(gpus=1, busy=1.0, power=0.4, interconnect_s=0.0, service_cores=1.0, cores=16)


def field_cell(mode: str, budget: int, concurrency: int) -> Measured:
    return next(
        cell
        for cell in field_record().cells
        if (cell.box, cell.mode, cell.budget, cell.concurrency)
        == ("b300", mode, budget, concurrency)
    )


def of_the_field(cell: Measured) -> Signs:
    """As its write-ups tell: 360 to 460 of 1100 W at 100 %, on 8 B300."""
    on, shape, gpus = processor(cell.box), target(field_record().target), field_record().gpus
    tokens = cell.concurrency * (cell.budget + 1)
    size = floor.read(shape, gpus, tokens, cached=0)
    return Signs(
        gpus=gpus,
        busy=1.0,
        power=410 / 1100,
        step_s=cell.step_s,
        memory_s=(size.target_weights + size.draft) / (on.tb_s * 1e12),
        compute_s=floor.flops(shape, gpus, tokens) / (on.tflops * 1e12),
        interconnect_s=exchange.seconds(shape, gpus, tokens, link(on), late=False),
    )


def test_full_use_at_little_power_is_the_sign_the_field_record_read() -> None:
    said = judge(Signs(gpus=8, busy=1.0, power=460 / 1100))
    assert (said.kind, said.label) == ("memory", "HBM-bound")
    assert said.why.startswith("A kernel runs 100% of the time at 42% of the power limit")
    assert "would look the same" in said.why
    assert "the bytes of a step, or the GPU's bandwidth" in said.missing


@pytest.mark.parametrize(
    ("busy", "step_ms", "memory_us", "kind"),
    [(0.835, 0.81, 57, "latency"), (0.375, 2.17, 64, "host"), (0.36, 2.59, 86, "host")],
)
def test_small_model_on_an_h200_waits_for_the_host_where_that_is_the_larger_part(
    busy: float, step_ms: float, memory_us: float, kind: str
) -> None:
    """As measured at 1, 16 and 64 streams: the service took 1.1 cores at each."""
    signs = replace(BUSY, busy=busy, power=0.24, step_s=step_ms / 1e3, service_cores=1.1)
    assert judge(replace(signs, memory_s=memory_us / 1e6, compute_s=1e-6)).kind == kind


@pytest.mark.parametrize(("mode", "budget"), [("ar", 0), ("ddtree", 8)])
def test_one_stream_of_the_field_record_is_bound_by_neither_bytes_nor_links(
    mode: str, budget: int
) -> None:
    """Its steps are 9 and 6 times what their bytes take: not what a bound by HBM means."""
    said = judge(of_the_field(field_cell(mode, budget, 1)))
    assert said.kind == "latency"
    assert "short kernels in a row" in said.why


def test_many_streams_of_the_field_record_read_most_experts_in_every_step() -> None:
    said = judge(of_the_field(field_cell("ar", 0, 64)))
    assert (said.kind, said.missing) == ("memory", ("the CPU time of the service",))
    assert said.why.startswith("At peak rates a step is 4")


def test_the_same_cell_over_a_slow_link_is_bound_by_it() -> None:
    cell = field_cell("ar", 0, 1)
    slow = replace(of_the_field(cell), interconnect_s=0.6 * cell.step_s)
    assert judge(slow).kind == "interconnect"
    assert judge(slow).why.startswith("At peak rates a step is 60% links, 1")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"step_s": 0.010, "memory_s": 0.006, "compute_s": 0.001}, "memory"),
        ({"step_s": 0.010, "memory_s": 0.004, "compute_s": 0.006}, "compute"),
        ({"step_s": 0.010, "memory_s": 0.004, "interconnect_s": 0.005}, "interconnect"),
        ({"step_s": 0.010, "memory_s": 0.001, "compute_s": 0.001}, "latency"),
        ({"step_s": 0.010, "memory_s": 0.001, "power": 0.95}, "unknown"),
        ({"power": 0.95}, "compute"),
        ({"power": 0.42}, "memory"),
        ({"power": 0.65}, "unknown"),
        ({"power": None}, "unknown"),
        ({"busy": 0.6, "service_cores": 1.0}, "host"),
        ({"busy": 0.6, "service_cores": 0.1}, "idle"),
        ({"busy": 0.6, "service_cores": None}, "unknown"),
        ({"busy": None}, "unknown"),
        ({"busy": None, "step_s": 0.010, "memory_s": 0.006}, "memory"),
        ({"busy": 0.85, "step_s": 0.010, "memory_s": 0.006}, "memory"),
    ],
)
def test_each_sign_leads_to_its_bottleneck(changes: dict[str, float | None], kind: Kind) -> None:
    said = judge(replace(BUSY, **changes))  # type: ignore[arg-type]
    assert said.kind == kind
    assert said.why.endswith(".")


def test_a_bottleneck_says_what_it_did_not_have() -> None:
    whole = replace(BUSY, step_s=0.010, memory_s=0.006, compute_s=0.001)
    assert judge(whole).missing == ()
    assert judge(replace(whole, compute_s=None)).missing == ("its arithmetic, or the GPU's rate",)


@pytest.mark.parametrize(
    ("service", "all_of_it", "kind", "part"),
    [
        (1.95, 2.0, "host", "takes 1.9 of 2 cores: the CPU is the limit; it reads 27.0 GB/s"),
        (1.2, 2.0, "host", "others 0.8: the CPU is the limit, and is shared"),
        (1.0, 1.1, "host", "its threads do not fill them"),
        (0.2, 0.3, "idle", "waits to be asked"),
        (None, 1.0, "unknown", "runs on the CPU"),
    ],
)
def test_on_a_cpu_the_cores_are_the_limit_or_are_not(
    service: float | None, all_of_it: float, kind: Kind, part: str
) -> None:
    signs = Signs(gpus=0, cores=2, service_cores=service, busy_cores=all_of_it)
    said = judge(replace(signs, step_s=0.02, step_bytes=0.54e9))
    assert said.kind == kind
    assert part in said.why
    assert kind == "idle" or said.missing


def test_no_threshold_is_without_a_reason_and_they_are_in_order() -> None:
    limits = thresholds()
    assert limits.little_power.value < limits.much_power.value
    assert all(len(one.reason) > 20 for one in vars(limits).values())


def recorded(cell: int = 0, **changes: object) -> Record:
    of = records.matrix()
    return records.record(records.cells(of)[cell], of, **changes)


def on_gpus(count: int = 1) -> Telemetry:
    expected = Expected(tokens=288, gpus=count, used=count)
    return telemetry(sampled.text(gpus=count), sampled.WINDOW, expected)


def test_a_record_without_samples_has_no_bottleneck() -> None:
    assert bottleneck(recorded()) is None


def test_a_record_whose_samples_were_lost_has_no_bottleneck() -> None:
    assert bottleneck(recorded(telemetry=absent("the link broke"))) is None


def test_a_gpu_that_was_not_seen_is_no_cpu() -> None:
    text = sampled.text(gpus=0)
    told = telemetry(text, sampled.WINDOW, Expected(tokens=288, gpus=1, used=1))
    said = bottleneck(recorded(telemetry=told))
    assert said is not None
    assert said.why == "How long the GPUs ran any kernel is not known."


def test_a_record_that_is_not_good_has_no_bottleneck() -> None:
    of = records.matrix()
    assert bottleneck(records.failed(records.cells(of)[0], of)) is None


def test_a_record_on_a_known_gpu_is_held_against_its_bytes() -> None:
    """SmolLM2's 0.27 GB take 0.06 ms on an H200, and a made-up step takes 20."""
    shape = target("smollm2-135m").model_dump()
    names = {"layers": "num_layers", "hidden": "hidden_size", "intermediate": "intermediate_size"}
    names |= {"vocab": "vocab_size", "heads": "num_heads", "kv_heads": "num_kv_heads"}
    told = {name: shape[key] for key, name in names.items()} | {"head_dim": 64, "family": "llama"}
    info = {"dtype": "bfloat16", "model": {"shape": told}}
    engine = EngineSeen(name="ddtree", version="0.1.0", argv=(), info=info)
    record = recorded(engine=engine, telemetry=on_gpus())
    assert record.telemetry is not None
    signs = signs_of(record, record.telemetry)
    assert signs.memory_s == pytest.approx(0.27e9 / 4.8e12, rel=0.05)
    assert (signs.gpus, signs.busy, signs.interconnect_s) == (1, 1.0, 0.0)
    assert signs.power == pytest.approx(400 / 700)
    said = bottleneck(record)
    assert said is not None
    assert said.kind == "latency"


def test_a_record_of_an_unknown_model_is_judged_by_use_and_power() -> None:
    said = bottleneck(recorded(telemetry=on_gpus()))
    assert said is not None
    assert (said.kind, "the bytes of a step, or the GPU's bandwidth" in said.missing) == (
        "unknown",
        True,
    )


def test_two_gpus_that_take_turns_are_not_busy() -> None:
    said = bottleneck(recorded(telemetry=on_gpus(2)))
    assert said is not None
    assert said.kind == "host"
    assert said.why.startswith("No kernel runs 25% of the time, while the service takes 1.5 cores")
