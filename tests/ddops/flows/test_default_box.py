"""The embedded default for real: the shipped box `local`, its real weights, drafter and engine."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx

from ddops.spec.shipped import shipped
from tests.ddops.machine import Machine


def real(machine: Machine) -> None:
    """`local`, on a port of its own."""
    text = (shipped("inventories") / "local.yaml").read_text("utf-8")
    serving = f"  serving:\n    port: {machine.port}\n"
    box = machine.folder / "inventories" / "stand.yaml"
    box.write_text(f"{text}{serving}", "utf-8")


def ddops(machine: Machine, *words: str) -> dict[str, Any]:
    done = machine.ddops(*words, "stand", "--json", DDOPS_PYTHON="")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_default_box_answers_and_a_second_deploy_changes_nothing(machine: Machine) -> None:
    real(machine)
    done = ddops(machine, "deploy", "--yes")
    assert "Paris" in done["answer"]["text"]
    weights = list((machine.home / "weights").glob("*/*"))
    assert sorted(path.suffix for path in weights) == [".gguf", ".json"]

    status = ddops(machine, "status")
    assert (status["model"], status["mode"], status["budget"], status["drift"]) == (
        "SmolLM2-135M-Instruct",
        "ddtree",
        16,
        [],
    )
    began = time.monotonic()
    assert ddops(machine, "deploy", "--yes") == {"changed": 0}
    assert time.monotonic() - began < 5.0

    ddops(machine, "stop")
    log = Path(machine.box_home / "service.log").read_text("utf-8")
    assert "exit code 0" in log  # it drained
    try:
        httpx.get(f"http://127.0.0.1:{machine.port}/health")
    except httpx.ConnectError:
        return
    raise AssertionError("something still listens")
