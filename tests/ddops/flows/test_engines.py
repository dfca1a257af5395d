"""SGLang and vLLM through the whole path: plan, unit, gate, smoke test, status. Stand-ins serve."""

from __future__ import annotations

import json

import pytest

from ddops.flows.gate import _meaning
from tests.ddops.machine import Machine

NO_GPU = ("--override", "engine-needs-gpu")
ENGINES = ["sglang", "vllm"]


def wish(machine: Machine, engine: str, **changes: object) -> None:
    machine.inventory(engine=engine, decoding={"mode": "ar"}, **changes)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_of_others_is_deployed_waited_for_and_asked(
    machine: Machine, engine: str
) -> None:
    wish(machine, engine)
    done = machine.ddops("deploy", "stand", "--yes", *NO_GPU)
    assert done.returncode == 0, done.stderr
    assert "said: Paris." in done.stdout
    again = machine.ddops("deploy", "stand", "--yes", *NO_GPU)
    assert "nothing to change" in again.stdout
    assert machine.status()["ready"]
    options = json.loads(machine.ddops("explain", "stand", "--json", *NO_GPU).stdout)
    assert options["options_from"] == f"{engine} of unknown version"


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_gpu_it_is_refused(machine: Machine, engine: str) -> None:
    wish(machine, engine)
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 5
    assert "rule `engine-needs-gpu`" in done.stderr
    assert not (machine.box_home / "unit.json").exists()


def test_the_key_of_vllm_reaches_it_by_its_environment_only(machine: Machine) -> None:
    key = machine.folder / "key"
    key.write_text("s3cr3t-key", "utf-8")
    wish(machine, "vllm", serving={"port": machine.port, "api_key_file": str(key)})
    done = machine.ddops("deploy", "stand", "--yes", *NO_GPU)
    assert done.returncode == 0, done.stderr
    assert "s3cr3t" not in (machine.box_home / "unit.json").read_text("utf-8")
    assert 'VLLM_API_KEY="s3cr3t-key"' in (machine.box_home / "env").read_text("utf-8")


@pytest.mark.parametrize(
    ("log", "verdict", "hint"),
    [
        ("CUDA error: an illegal memory access was", "illegal memory access", "graphs: off"),
        (
            "fatal error: Python.h: No such file or directory",
            "could not be compiled",
            "ddops check",
        ),
        ("ncclUnhandledCudaError: Call to CUDA function", "could not talk", "nvls: off"),
        ("an ordinary line", "the engine crashed (exit code 1)", "ddops logs"),
    ],
)
def test_the_log_of_a_crash_says_what_to_do(
    machine: Machine, log: str, verdict: str, hint: str
) -> None:
    machine.behave(exit=1, log=log)
    done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 8
    assert verdict in done.stderr
    assert hint in done.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_a_box_that_follows_is_up_when_its_process_lives(machine: Machine, engine: str) -> None:
    node = {"rank": 1, "of": 2, "leader": "127.0.0.1:20000"}
    wish(machine, engine, node=node, parallel="tp")
    done = machine.ddops("deploy", "stand", "--yes", *NO_GPU)
    assert done.returncode == 0, done.stderr
    assert "computes for rank 0" in done.stdout
    unit = json.loads((machine.box_home / "unit.json").read_text("utf-8"))
    argv = unit["argv"]
    assert argv[argv.index("--node-rank") + 1] == "1"
    assert machine.ddops("deploy", "stand", "--yes", *NO_GPU).stdout.startswith("nothing to change")
    assert machine.status()["ready"]


def test_exit_codes_of_the_bundled_engine_mean_nothing_for_another() -> None:
    assert _meaning("ddtree", 4, "")[0] == "out of memory"
    assert _meaning("sglang", 4, "")[0] == "the service ended"
    assert _meaning("vllm", 2, "")[0] == "the engine refused its arguments"
