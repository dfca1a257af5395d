"""`ddops bench` with real processes: a keeper, a mock engine that is restarted, files on disk."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddops.errors import UsageError
from ddops.flows.bench import load_matrix
from ddops.spec.run import Run
from tests.ddops.flows.bench_machine import AR, CELLS, QUICK, BenchMachine, eventually
from tests.ddops.machine import Machine


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BenchMachine]:
    made = BenchMachine(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchMachine]:
    """Measured once; the tests that use it leave it as it is."""
    made = BenchMachine(tmp_path_factory.mktemp("measured"))
    try:
        done = made.bench()
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        made.close()


def test_measures_every_cell_and_puts_the_box_back(measured: BenchMachine) -> None:
    assert measured.good == sorted(CELLS)
    assert len(measured.files) == len(CELLS)
    assert measured.budget == 16
    assert measured.status()["service"]["state"] == "running"
    assert not (measured.run / "found.json").exists()
    packages = json.loads((measured.run / "environment.json").read_bytes())["packages"]
    assert "httpx" in {package["name"] for package in packages}


def test_a_record_holds_what_it_takes_to_believe_it(measured: BenchMachine) -> None:
    record = measured.record("ddtree-b8.c2.r1")
    assert record.ok
    assert record.metrics is not None
    assert (record.metrics.completed, record.metrics.completion_tokens) == (4, 52)
    assert record.metrics.accept == 4.0
    assert [gate.name for gate in record.gates] == ["garbage", "alone", "lossless"]
    assert record.deployment.decoding.budget == 8
    assert record.engine is not None
    assert record.engine.argv == ("mock", "ddtree")
    assert record.command == ("ddops", "bench", "stand", "--matrix", "small.yaml", "--yes")
    assert record.prompts_licence == "Apache-2.0"
    assert record.client_lag_s is not None
    assert record.busy_cores is not None


def test_run_json_holds_what_the_records_share(measured: BenchMachine) -> None:
    record = measured.record("ddtree-b8.c2.r1")
    run = Run.model_validate_json((measured.run / "run.json").read_bytes())
    assert run.served["ddtree-b8"].unit_sha256 == record.unit_sha256
    assert run.served["ddtree-b8"].unit != run.served["ar"].unit
    assert run.found.decoding.budget == 16
    assert run.box_facts_sha256 == record.box_facts_sha256
    assert run.prompts.id == "coding"
    assert run.fingerprint == record.matrix_fingerprint


def test_a_second_run_measures_nothing_and_touches_nothing(measured: BenchMachine) -> None:
    before, pid = measured.files, measured.status()["service"]["pid"]
    again = measured.bench()
    assert again.returncode == 0
    assert "0 cells to measure, 4 measured already" in again.stderr
    assert measured.files == before
    assert measured.status()["service"]["pid"] == pid


def test_the_speed_up_is_that_of_the_two_records_it_names(measured: BenchMachine) -> None:
    said = json.loads(measured.bench("--json").stdout)
    assert [row["cell"] for row in said["cells"]] == CELLS
    assert {row["verdict"] for row in said["cells"]} == {"ok"}
    ratio = said["cells"][3]["speedup"]
    assert (ratio["of"], ratio["base"]) == ("ddtree-b8.c2.r1", "ar.c2.r1")
    of, base = measured.record("ddtree-b8.c2.r1").metrics, measured.record("ar.c2.r1").metrics
    assert of is not None and base is not None
    assert ratio["value"] == of.output_tok_s / base.output_tok_s > 1.5


def test_the_table_has_a_row_for_every_cell(measured: BenchMachine) -> None:
    head, *rows = measured.bench().stdout.splitlines()
    assert head.split()[:3] == ["variant", "C", "repeat"]
    assert [row.split()[:3] for row in rows] == [
        [name, concurrency, "1"] for name in ("ar", "ddtree-b8") for concurrency in "12"
    ]
    # A busy machine wakes the client late, and the row says so.
    assert all(row.rstrip().removesuffix(", warned").endswith("ok") for row in rows)


def test_an_engine_that_dies_in_one_cell_costs_only_that_cell(box: BenchMachine) -> None:
    box.plans(ddtree_b8={**QUICK, "die_once": 7})
    first = box.bench()
    assert first.returncode == 0
    assert "ddtree-b8.c1.r1 failed: service-died" in first.stderr
    assert "failed: service-died" in first.stdout
    before = box.files
    assert sorted(before) == sorted(
        "ddtree-b8.c1.r1.failure.json" if cell == "ddtree-b8.c1.r1" else f"{cell}.json"
        for cell in CELLS
    )
    again = box.bench()
    assert "1 cells to measure, 3 measured already" in again.stderr
    assert box.good == sorted(CELLS)
    assert {name: data for name, data in box.files.items() if name in before} == before
    assert box.budget == 16


def test_a_variant_that_does_not_start_is_a_record_too(box: BenchMachine) -> None:
    box.plans(ddtree_b8={"exit": 4, "log": "RuntimeError: CUDA out of memory"})
    done = box.bench()
    assert done.returncode == 0
    failure = box.record("ddtree-b8.c1.r1.failure").failure
    assert failure is not None
    assert failure.kind == "out-of-memory"
    assert "CUDA out of memory" in failure.log_tail
    assert box.good == ["ar.c1.r1", "ar.c2.r1"]
    assert box.budget == 16


def test_a_speed_beside_a_red_gate_is_printed_as_invalid(box: BenchMachine) -> None:
    box.plans(ddtree_b8={**QUICK, "garbage": True})
    done = box.bench()
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("ddtree")]
    assert len(rows) == 2
    assert all(row[3:7] == ["invalid", "-", "-", "-"] for row in rows)
    assert "ddtree-b8.c1.r1 is invalid: garbage: 4 of 4 answers are garbage" in done.stderr
    assert "ddtree-b8.c1.r1 is invalid: lossless: 0 of 4 answers equal to `ar`" in done.stderr
    assert box.good == ["ar.c1.r1", "ar.c2.r1"]


def test_without_any_good_record_the_exit_code_says_so(box: BenchMachine) -> None:
    box.plans(**{name: {**QUICK, "fail_from": 0} for name in ("ar", "ddtree_b4", "ddtree_b8")})
    done = box.bench()
    assert done.returncode == 9
    assert "no cell of the matrix has a good record" in done.stderr
    assert box.record("ar.c1.r1.failure").failure is not None


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_bench_puts_the_box_back_first(
    box: BenchMachine, how: signal.Signals
) -> None:
    box.plans(ddtree_b8={**QUICK, "gap": 0.5})
    with box.benching() as process:
        eventually(lambda: "ar.c2.r1.json" in box.files and box.budget == 8)
        process.send_signal(how)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "hint: to continue" in said
    assert box.good == ["ar.c1.r1", "ar.c2.r1"]
    assert box.budget == 16
    assert box.status()["service"]["state"] == "running"
    assert not (box.run / "found.json").exists()


def test_after_kill_9_the_next_run_continues_and_puts_the_box_back(box: BenchMachine) -> None:
    box.plans(ddtree_b8={**QUICK, "gap": 0.3})
    with box.benching() as process:
        eventually(lambda: "ddtree-b8.c1.r1.json" in box.files)
        process.kill()
    before = box.files
    assert box.budget == 8
    assert (box.run / "found.json").exists()
    box.plans()
    assert box.bench().returncode == 0
    assert box.good == sorted(CELLS)
    assert len(box.files) == len(CELLS)
    assert {name: data for name, data in box.files.items() if name in before} == before
    assert box.budget == 16
    assert not (box.run / "found.json").exists()
    run = Run.model_validate_json((box.run / "run.json").read_bytes())
    assert len(run.sessions) == 2


def test_after_kill_9_restore_puts_the_box_back_and_measures_nothing(box: BenchMachine) -> None:
    box.plans(ar={**AR, "gap": 0.5})
    with box.benching() as process:
        eventually(lambda: _mode(box) == "ar")
        process.kill()
    assert box.ddops("bench", "stand", "--restore").stdout == "put back\n"
    assert _mode(box) == "ddtree"
    assert box.ddops("bench", "stand", "--restore").stdout == "nothing to put back\n"
    assert box.files == {}


def test_a_service_that_was_stopped_is_stopped_again_after_the_chosen_cells(
    box: BenchMachine,
) -> None:
    box.ddops("stop", "stand")
    box.bench("--cells", "ddtree-b8.c2.*")
    assert box.good == ["ar.c2.r1", "ddtree-b8.c2.r1"]  # with what it is compared with
    assert box.status()["service"]["state"] == "stopped"


def test_a_dry_run_shows_cells_and_time_and_touches_nothing(box: BenchMachine) -> None:
    done = box.ddops("bench", "stand", "--matrix", "small.yaml", "--dry-run")
    assert done.returncode == 0
    assert all(cell in done.stdout for cell in CELLS)
    assert "4 cells to measure, about 1 min" in done.stdout
    assert not (box.folder / "results").exists()


def test_records_of_different_deployments_do_not_share_a_folder(box: BenchMachine) -> None:
    box.bench("--cells", "ar.c1.*")
    box.inventory(limits={"context_length": 1024})
    assert "the inventory has changed since the deploy" in box.bench("--dry-run").stderr
    assert box.ddops("deploy", "stand", "--yes").returncode == 0
    refused = box.bench()
    assert refused.returncode == UsageError.exit_code
    assert "was measured with another deployment" in refused.stderr
    assert "`--out`" in refused.stderr


def test_more_streams_than_the_engine_runs_at_once_are_told(box: BenchMachine) -> None:
    box.matrix(concurrency=[1, 9])
    done = box.bench("--dry-run")
    assert "warning: at C=9 requests queue: the engine runs 8 at once" in done.stderr


def test_a_mistake_in_the_matrix_is_shown_with_its_line(box: BenchMachine) -> None:
    box.matrix(concurency=[1])
    wrong = box.bench()
    assert wrong.returncode == 3
    assert "small.yaml:2:1: unknown key `concurency`" in wrong.stderr
    assert "did you mean `concurrency`?" in wrong.stderr


def test_nobody_to_ask_and_no_yes_is_refused(box: BenchMachine) -> None:
    refused = box.ddops("bench", "stand", "--matrix", "small.yaml")
    assert refused.returncode == UsageError.exit_code
    assert not (box.folder / "results").exists()


def test_a_box_without_a_deployment_is_sent_to_deploy(machine: Machine) -> None:
    refused = machine.ddops("bench", "stand", "--matrix", "--yes")
    assert refused.returncode == 9
    assert "`ddops deploy stand`" in refused.stderr


def test_the_default_matrix_compares_trees_and_chain_with_ar() -> None:
    matrix = load_matrix(None)
    assert [variant.name for variant in matrix.variants] == [
        "ar",
        "chain",
        "ddtree-b4",
        "ddtree-b8",
        "ddtree-b16",
    ]
    assert matrix.concurrency == (1, 4)
    assert matrix.load.prompts == "coding"
    assert matrix.load.temperature == 0


def _mode(box: BenchMachine) -> str:
    argv = json.loads((box.box_home / "unit.json").read_text("utf-8"))["argv"]
    return str(argv[argv.index("--mode") + 1])
