"""A machine of two H200 in its own words: what a person reads in them is what the parsers say."""

from __future__ import annotations

import pytest

from ddops.facts import gpu_memory, gpu_state, hardware
from ddops.facts.gpu_memory import Held
from ddops.spec.hardware import Cuda, Fabric, GpuState
from ddops.spec.observed import Gpu
from tests.ddops.facts.recordings import box, recorded

MACHINE = "h200-x2"
REPORT = recorded(MACHINE, "report.txt")


def test_the_machine_is_read_as_a_person_reads_it() -> None:
    gpus, seen = hardware.look(box(MACHINE))
    assert gpus == tuple(
        Gpu(
            index=index,
            name="NVIDIA H200",
            memory_mib=143771,
            driver="580.159.04",
            compute_capability="9.0",
            power_limit_w=700.0,
        )
        for index in (0, 1)
    )
    assert (seen.on_bus, seen.nodes, seen.complaint) == (2, 2, None)
    assert seen.topology.links == (("X", "NV18"), ("NV18", "X"))
    assert seen.topology.joined == "nvlink"
    assert seen.cuda == Cuda(driver="13.0", toolkits=("13.0",))  # four links to one compiler
    assert seen.fabric_manager == "absent"  # it is the host's, this is a guest


def test_both_gpus_are_healthy_and_have_joined_and_one_is_full() -> None:
    assert gpu_state.parse(REPORT) == tuple(
        GpuState(
            bus=bus,
            ecc=True,
            uncorrected=0,
            remapping="none",
            recovery=None,
            mig=False,
            fabric=Fabric(state="completed", status="success", healthy=None),  # its health is N/A
            used_mib=used,
        )
        for bus, used in (("00000000:00:06.0", 84525), ("00000000:00:07.0", 0))
    )


def test_what_holds_a_gpu_is_named() -> None:
    held = gpu_memory.parse(recorded(MACHINE, "memory.txt"))
    assert held == Held(used_mib=(84525, 0), holders=("699 /opt/venv/bin/python",))


@pytest.mark.parametrize(
    ("row", "remapping"),
    [
        ("Unrepairable Memory                            : No", "failed"),
        ("Channel Repair Pending                         : No", "pending"),
        ("Remapping Failure Occurred                     : No", "failed"),
        ("TPC Repair Pending                             : No", "none"),  # that is no memory
    ],
)
def test_memory_that_is_to_be_repaired_is_seen(row: str, remapping: str) -> None:
    assert REPORT.count(row) == 2
    first, second = gpu_state.parse(REPORT.replace(row, row.replace(": No", ": Yes"), 1))
    assert (first.remapping, second.remapping) == (remapping, "none")
