"""The bus is read by the shell itself, over files that look like the kernel's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ddops.facts import pci

DEVICES = {
    "gpu": ("0x10de", "0x030200"),
    "display": ("0x10de", "0x030000"),
    "switch": ("0x10de", "0x068000"),
    "sound": ("0x10de", "0x040300"),
    "another's": ("0x8086", "0x030000"),
    "gone": (None, None),
    "going": ("0x10de", None),
}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_gpus_are_found_among_all_else_and_a_device_that_goes_is_none(
    tmp_path: Path, shell: str
) -> None:
    for name, (vendor, kind) in DEVICES.items():
        (tmp_path / name).mkdir()
        for file, text in (("vendor", vendor), ("class", kind)):
            if text is not None:
                (tmp_path / name / file).write_text(f"{text}\n")
    *_, script = pci.COMMAND.argv
    here = script.replace("/sys/bus/pci/devices", str(tmp_path))
    done = subprocess.run([shell, "-c", here], capture_output=True, text=True, check=True)
    assert pci.parse(done.stdout).on_bus == 2
    assert done.stderr == ""
