"""A preflight: what fails, what only warns, and the way out of each."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.engines.table import ENGINES
from ddops.facts import hardware
from ddops.spec.deployment import BroughtEnvironment, Deployment
from ddops.spec.load import load_box
from ddops.spec.observed import Clock, Glimpse
from ddops.spec.verdict import Verdict
from ddops.steps import preflight, preflight_gpu
from tests.ddops.facts.recordings import box
from tests.ddops.seen import SEEN

TOOLS = ("gcc", "aria2c", "libnuma.so.1", "apt-get")
ROOT = {"user": "root", "root": True}


def wish(**changes: Any) -> Deployment:
    return load_box("local").deployment.model_copy(update=changes)


def glimpse(machine: str | None = None, *, nodes: int = 0, on_bus: int = 0, **more: Any) -> Glimpse:
    """A box that fits; with `machine`, one with the GPUs recorded under that name."""
    parts: dict[str, Any] = {
        "system": {**SEEN["system"], **ROOT, **more.pop("system", {})},
        "clock": {"ahead_s": 0.1, "kept": True},
        "gpus": (),
        "hardware": SEEN["hardware"],
        "tools": TOOLS,
        "apt_holder": None,
        "units": {"running": (), "failed": ()},
        "to_fetch": 0,
        "interpreter": "/v/bin/python",
        "complaint": None,
        "python": SEEN["python"],
        "broken": {},
        "port": SEEN["port"],
        "service": SEEN["service"],
    }
    if machine:
        gpus, doing = hardware.look(box(machine, on_bus=on_bus, nodes=nodes))
        parts |= {"gpus": gpus, "hardware": doing}
    python = more.pop("python", {})
    parts["python"] = {**SEEN["python"], **python} if python is not None else None
    return Glimpse.model_validate({**parts, **more})


def judged(seen: Glimpse, want: Deployment | None = None) -> dict[str, Verdict]:
    want = want or wish()
    verdicts = preflight.judge(want, ENGINES[want.engine], seen)
    assert len({one.subject for one in verdicts}) == len(verdicts)
    assert all(one.fix for one in verdicts if one.state != "ok")
    return {one.subject: one for one in verdicts}


@pytest.mark.parametrize("machine", [None, "b300", "pro6000"])
def test_a_box_that_fits_has_nothing_but_ok(machine: str | None) -> None:
    verdicts = judged(glimpse(machine))
    assert {one.state for one in verdicts.values()} == {"ok"}
    if machine:
        assert "8 x NVIDIA" in verdicts["GPUs"].said


@pytest.mark.parametrize(
    ("system", "subject", "state", "said"),
    [
        ({"glibc": None}, "C library", "fail", "no glibc"),
        ({"glibc": "2.17"}, "C library", "fail", "glibc 2.17"),
        ({"glibc": "2.28"}, "C library", "ok", "glibc 2.28"),
        ({"kernel": "Linux 5.4.0-216-generic"}, "kernel", "warn", "5.4.0"),
        ({"kernel": "Linux 6.8.0-50-generic"}, "kernel", "ok", "6.8.0"),
        ({"user": "bob", "root": False}, "rights", "warn", "sudo without a password"),
        ({"user": "bob", "root": True}, "rights", "ok", "user `bob`"),
        ({"pid1": "tini", "user_manager": False}, "supervisor", "warn", "process 1 is tini"),
        ({"pid1": "tini"}, "supervisor", "warn", "ends when the user logs out"),
        ({"disk_free": 10**8}, "disk", "fail", "0.1 GB free"),
    ],
)
def test_the_system_is_judged(system: dict[str, Any], subject: str, state: str, said: str) -> None:
    verdict = judged(glimpse(system=system))[subject]
    assert verdict.state == state
    assert said in verdict.said


@pytest.mark.parametrize(
    ("ahead_s", "kept", "state"),
    [
        (0.5, True, "ok"),
        (0.5, None, "ok"),
        (-0.5, False, "warn"),
        (5, True, "warn"),
        (-90, True, "fail"),
    ],
)
def test_a_clock_that_is_wrong_is_worse_than_one_that_may_become_so(
    *, ahead_s: float, kept: bool | None, state: str
) -> None:
    assert preflight.clock(Clock(ahead_s=ahead_s, kept=kept)).state == state


def test_weights_that_do_not_fit_fail_before_the_first_byte() -> None:
    verdict = judged(glimpse(to_fetch=590 * 10**9))["disk"]
    assert verdict.state == "fail"
    assert "590.0 GB of weights to fetch" in verdict.said


def test_a_bare_box_is_judged_as_far_as_it_goes() -> None:
    verdicts = judged(glimpse(python=None, port=None, service=None))
    assert verdicts["Python"].state == "fail"
    assert verdicts["Python"].said == "there is no /v/bin/python"
    assert (verdicts["packages"].state, verdicts["port"].state) == ("warn", "warn")
    assert verdicts["disk"].state == "ok"


def test_an_interpreter_that_does_not_run_is_not_called_missing() -> None:
    seen = glimpse(python=None, port=None, service=None, complaint="Permission denied")
    verdict = judged(seen)["Python"]
    assert (verdict.state, verdict.said) == (
        "fail",
        "/v/bin/python does not run: Permission denied",
    )


def test_an_environment_that_a_deploy_will_bring_only_warns() -> None:
    brought = BroughtEnvironment(source=".venv")
    seen = glimpse(python=None, port=None, service=None)
    verdict = judged(seen, wish(environment=brought))["Python"]
    assert (verdict.state, verdict.fix) == ("warn", "`ddops deploy BOX` brings it")
    assert "to be streamed from .venv" in verdict.said


def test_modules_that_are_missing_fail_with_what_installs_them() -> None:
    verdict = judged(glimpse(python={"missing": ["torch", "gguf"]}))["Python"]
    assert "lacks torch, gguf" in verdict.said
    assert "pip install" in str(verdict.fix)


def test_a_module_that_cannot_be_imported_fails_with_its_reason() -> None:
    verdict = judged(glimpse(broken={"torch": "ImportError: libcudnn.so.9"}))["Python"]
    assert verdict.state == "fail"
    assert verdict.said.endswith("cannot run ddtree: `import torch`: ImportError: libcudnn.so.9")
    assert "pip install" in str(verdict.fix)


def test_packages_that_a_deploy_installs_only_warn() -> None:
    verdict = judged(glimpse("h200", tools=("apt-get",), python={"headers": False}))["packages"]
    assert (verdict.state, verdict.said) == ("warn", "gcc python3.12-dev is missing")
    barred = glimpse("h200", tools=("apt-get",), system={"user": "bob", "root": False})
    assert judged(barred)["packages"].state == "fail"


def test_whoever_uses_apt_or_the_port_is_named() -> None:
    holder = {"pid": 59, "program": "unattended-upgrade"}
    verdicts = judged(glimpse(apt_holder=holder, port={"port": 8421, "holder": holder}))
    assert (verdicts["apt"].state, verdicts["port"].state) == ("warn", "fail")
    assert "process 59 (unattended-upgrade)" in verdicts["apt"].said
    assert "`kill 59`" in str(verdicts["port"].fix)


def test_a_failed_service_warns() -> None:
    verdict = judged(glimpse(units={"running": (), "failed": ("nvidia-persistenced",)}))["services"]
    assert (verdict.state, verdict.said) == ("warn", "failed: nvidia-persistenced")


def test_a_driver_older_than_torchs_cuda_fails() -> None:
    verdict = judged(glimpse("h200"))["driver"]
    assert verdict.state == "fail"
    assert "driver 550.127.08 runs CUDA up to 12.4" in verdict.said
    assert "is built for 13.0" in verdict.said
    assert judged(glimpse("h200", python={"torch_cuda": "12.8"}))["driver"].state == "ok"
    assert judged(glimpse("h200"), wish(device="cpu"))["driver"].state == "ok"


def test_torch_without_cuda_fails_where_the_gpu_is_wished_and_warns_where_it_is_not() -> None:
    seen = glimpse("b300", python={"torch_cuda": None})
    assert judged(seen, wish(device="cuda"))["driver"].state == "fail"
    verdict = judged(seen)["driver"]
    assert verdict.state == "warn"
    assert "built without CUDA: the engine runs on the processor" in verdict.said


def test_gpus_without_a_driver_fail_with_its_own_words() -> None:
    gpus, doing = hardware.look(box("no-driver"))
    seen = glimpse(gpus=gpus, hardware=doing)
    verdict = judged(seen)["driver"]
    assert verdict.state == "fail"
    assert "8 GPUs are on the PCI bus" in verdict.said
    assert "couldn't communicate with the NVIDIA driver" in verdict.said
    mismatch = doing.model_copy(update={"complaint": "Driver/library version mismatch"})
    assert "reboot" in str(judged(glimpse(hardware=mismatch))["driver"].fix)


def test_no_gpu_fails_only_where_one_is_wished() -> None:
    assert judged(glimpse(), wish(device="cuda"))["driver"].state == "fail"


def test_a_gpu_that_fell_off_fails_and_one_that_was_not_given_warns() -> None:
    lost = judged(glimpse("fabric-down", nodes=8, on_bus=8))["GPUs"]
    assert (lost.state, lost.said.split(":")[0]) == ("fail", "7 of 8 answer")
    container = judged(glimpse("fabric-down", nodes=7, on_bus=8))["GPUs"]
    assert container.state == "warn"


def test_gpus_of_two_kinds_warn() -> None:
    seen = glimpse("b300")
    other = seen.gpus[0].model_copy(update={"name": "NVIDIA B200"})
    verdict = preflight_gpu.together(seen.model_copy(update={"gpus": (other, *seen.gpus[1:])}))
    assert verdict.state == "warn"
    assert "1 x NVIDIA B200, 7 x NVIDIA B300 SXM6 AC" in verdict.said


def test_a_split_gpu_fails_with_the_command_that_makes_it_whole() -> None:
    verdict = judged(glimpse("mig", python={"torch_cuda": "12.8"}))["MIG"]
    assert (verdict.state, verdict.fix) == ("fail", "`sudo nvidia-smi -i 0 -mig 0`")


def test_a_fabric_that_is_not_joined_fails_and_names_its_manager() -> None:
    verdict = judged(glimpse("fabric-down"))["fabric"]
    assert verdict.said == "7 of 7 GPUs have not joined: in progress; the manager is failed"
    assert "systemctl restart nvidia-fabricmanager" in str(verdict.fix)


def test_a_stopped_manager_of_a_joined_fabric_warns() -> None:
    seen = glimpse("b300")
    stopped = seen.hardware.model_copy(update={"fabric_manager": "stopped"})
    verdict = preflight_gpu.fabric(seen.model_copy(update={"hardware": stopped}))
    assert verdict.state == "warn"


def test_the_worst_memory_of_all_gpus_is_told() -> None:
    states = glimpse("bad-memory").hardware.states
    first, _ = states
    assert preflight_gpu.memory(states).said == (
        "GPU 0 (00000000:10:1c.0): 2 errors that ECC could not correct;"
        " GPU 1 (00000000:10:1d.0) has no spare memory rows left"
    )
    mended = first.model_copy(update={"uncorrected": 0})
    assert preflight_gpu.memory([mended]).state == "warn"
    asks = mended.model_copy(update={"remapping": "none", "recovery": "reset"})
    assert preflight_gpu.memory([asks]).state == "fail"
    off = mended.model_copy(update={"remapping": "none", "ecc": False})
    assert "ECC is off" in preflight_gpu.memory([off, mended]).said
    assert preflight_gpu.memory([]).state == "ok"


def test_a_gpu_that_somebody_else_fills_warns_until_the_service_itself_may_be_it() -> None:
    stopped = {**SEEN["service"], "state": "stopped", "pid": None}
    verdict = judged(glimpse("h200-x2", service=stopped))["GPUs"]
    assert verdict.state == "warn"
    assert verdict.said == "2 x NVIDIA H200, in use already: GPU 0 holds 84525 of 143771 MiB"
    assert SEEN["service"]["state"] == "running"
    own = judged(glimpse("h200-x2"))["GPUs"]
    assert (own.state, own.said) == ("ok", "2 x NVIDIA H200, joined by nvlink")
