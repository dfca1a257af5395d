"""GPUs as the driver's tools tell them, from texts of machines that nobody has at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddops.facts import fabric, gpu, gpu_state, hardware, pci, stock, tools, units
from ddops.host.local import Local
from ddops.host.scripted import Scripted
from ddops.spec.command import Result
from ddops.spec.hardware import Fabric, Topology
from ddops.spec.observed import Stored, Units, Venv
from tests.ddops.facts.recordings import box, recorded
from tests.ddops.facts.test_facts import PLACE


@pytest.mark.parametrize(
    ("machine", "count", "joined", "newest", "ready", "manager"),
    [
        ("b300", 8, "nvlink", "13.0", True, "running"),
        ("h200", 8, "nvlink", "12.4", True, "running"),
        ("pro6000", 8, "pcie", "13.0", None, "absent"),
        ("mig", 2, "nvlink", "12.2", None, "absent"),
        ("fabric-down", 7, "nvlink", "13.0", False, "failed"),
        ("bad-memory", 2, "nvlink", "11.6", None, "absent"),
    ],
)
def test_every_machine_is_read_whole(
    *, machine: str, count: int, joined: str, newest: str, ready: bool | None, manager: str
) -> None:
    gpus, seen = hardware.look(box(machine))
    assert len(gpus) == len(seen.states) == len(seen.topology.links) == count
    assert all(len(row) == count for row in seen.topology.links)
    assert (seen.topology.joined, seen.cuda.driver) == (joined, newest)
    assert {one.fabric.ready if one.fabric else None for one in seen.states} == {ready}
    assert (seen.fabric_manager, seen.complaint, seen.on_bus) == (manager, None, 8)
    assert seen.cuda.toolkits == ("13.0",)


def test_a_healthy_gpu_has_nothing_to_report() -> None:
    first, *_ = gpu_state.parse(recorded("b300", "report.txt"))
    assert (first.bus, first.ecc, first.uncorrected) == ("00000000:1b:00.0", True, 0)
    assert (first.remapping, first.recovery, first.mig) == ("none", None, False)
    assert first.fabric == Fabric(state="completed", status="success", healthy=True)


def test_a_short_health_section_leaves_health_untold() -> None:
    first, *_ = gpu_state.parse(recorded("h200", "report.txt"))
    assert first.fabric is not None
    assert (first.fabric.healthy, first.fabric.ready) == (None, True)


@pytest.mark.parametrize(
    ("state", "status", "healthy", "ready"),
    [
        ("completed", "success", True, True),
        ("completed", "success", None, True),
        ("completed", "success", False, False),
        ("completed", "insufficient resources", None, False),
        ("in progress", None, None, False),
        ("not started", None, None, False),
    ],
)
def test_only_a_completed_healthy_registration_is_ready(
    *, state: str, status: str | None, healthy: bool | None, ready: bool
) -> None:
    assert Fabric(state=state, status=status, healthy=healthy).ready is ready


def test_a_split_gpu_is_told_from_a_whole_one() -> None:
    split, whole = gpu_state.parse(recorded("mig", "report.txt"))
    assert (split.mig, whole.mig) == (True, False)
    assert split.uncorrected == 0  # not its instances' counters


def test_bad_memory_is_seen_in_the_old_spelling_too() -> None:
    pending, failed = gpu_state.parse(recorded("bad-memory", "report.txt"))
    assert (pending.ecc, pending.uncorrected, pending.remapping) == (True, 2, "pending")
    assert (failed.uncorrected, failed.remapping) == (0, "failed")


def test_a_gpu_that_asks_for_a_reset_is_seen() -> None:
    text = recorded("pro6000", "report.txt").replace(": None\n    PCI", ": Reset\n    PCI", 1)
    assert [one.recovery for one in gpu_state.parse(text)[:2]] == ["reset", None]
    older = "GPU 00000000:18:00.0\n    GPU Reset Status\n        Reset Required         : Yes\n"
    assert [one.recovery for one in gpu_state.parse(older)] == ["reset"]


@pytest.mark.parametrize("name", ["gpus.csv", "mismatch.csv"])
def test_without_an_answer_of_the_driver_its_complaint_is_kept(name: str) -> None:
    said = recorded("no-driver", name)
    host = Scripted({gpu.COMMAND.line: said, pci.COMMAND.line: "bus\n" * 8})
    gpus, seen = hardware.look(host)
    assert (gpus, seen.states, seen.topology.joined) == ((), (), "alone")
    assert (seen.on_bus, seen.nodes) == (8, 0)
    assert seen.complaint == said.strip()
    assert len(host.ran) == 2  # there is nothing more to ask


def test_a_driver_that_is_not_installed_is_said_only_where_there_is_a_gpu() -> None:
    absent = Result(argv=("nvidia-smi",), code=127, stdout="", stderr="not found", seconds=0.0)
    for on_bus, complaint in ((1, "nvidia-smi is not installed"), (0, None)):
        host = Scripted({gpu.COMMAND.line: absent, pci.COMMAND.line: "bus\n" * on_bus})
        assert hardware.look(host)[1].complaint == complaint


def test_links_that_differ_are_mixed() -> None:
    pairs = (("X", "NV4", "SYS"), ("NV4", "X", "SYS"), ("SYS", "SYS", "X"))
    assert Topology(links=pairs).joined == "mixed"
    assert Topology(links=(("X",),)).joined == "alone"


def test_a_fabric_manager_outside_systemd_counts_as_running() -> None:
    assert fabric.parse("process\n") == "running"
    assert fabric.parse("LoadState=loaded\nActiveState=inactive\n") == "stopped"
    assert fabric.parse("") == "absent"


def test_services_are_told_by_how_they_are() -> None:
    text = (
        "dbus.service      loaded active running D-Bus System Message Bus\n"
        "vllm.service      loaded failed failed  vLLM\n"
        "ssh.service       loaded active exited  once\n"
    )
    assert units.parse(text) == Units(running=("dbus",), failed=("vllm",))
    assert units.parse("") == Units(running=(), failed=())


def test_what_lies_on_a_box_is_found_where_it_lies(tmp_path: Path) -> None:
    place = PLACE.model_copy(update={"root": str(tmp_path)})
    kept = tmp_path / "weights" / "org--tiny@1"
    kept.mkdir(parents=True)
    (kept / "w").write_bytes(b"x" * 100_000)
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n", "utf-8")
    seen = stock.parse(Local().run(stock.command(place)).stdout)
    (stored,) = seen.weights
    assert stored == Stored(path=str(kept), size=stored.size)
    assert 100_000 <= stored.size < 200_000
    assert Venv(path=str(venv), python="3.12.3") in seen.venvs


def test_tools_of_this_machine_are_found() -> None:
    found = tools.parse(Local().run(tools.COMMAND).stdout)
    assert set(found) <= {*tools.PROGRAMS, *tools.LIBRARIES}
