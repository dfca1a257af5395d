"""`ddops init`: a first inventory from what a box says, which loads as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddops.engines.table import ENGINES
from ddops.errors import UsageError
from ddops.facts import fabric, gpu, gpu_state, software, stock, system, topology
from ddops.flows.init import init, target
from ddops.flows.site import Site
from ddops.host.local import Local
from ddops.host.scripted import Scripted
from ddops.spec.box import Reach
from ddops.spec.load import load_box
from tests.ddops.gpu_boxes import RECORDED
from tests.ddops.machine import Machine

INSTALLED: dict[str, Any] = {
    "version": "0.5.13",
    "installed": True,
    "nccl": None,
    "triton": None,
    "triton_ptxas": None,
    "cuda_ptxas": None,
    "flash_attn_cute": False,
}


def b300() -> Site:
    """The recorded GPUs in a machine that is otherwise this one."""
    box = target("root@b300.example.net:2222", None)
    host = Scripted()
    site = Site(host, box)
    venv = "/root/sglang"
    host.answers = {
        system.command(site.place.root).line: Local().run(system.command("/tmp")).stdout,
        gpu.COMMAND.line: (RECORDED / "b300" / "gpus.csv").read_text("utf-8"),
        gpu_state.COMMAND.line: (RECORDED / "b300" / "report.txt").read_text("utf-8"),
        topology.COMMAND.line: (RECORDED / "b300" / "topology.txt").read_text("utf-8"),
        fabric.COMMAND.line: (RECORDED / "b300" / "fabric.txt").read_text("utf-8"),
        stock.command(site.place).line: f"venv\t3.12.3\t{venv}\n",
        **{
            software.command(f"{venv}/bin/python", engine).line: json.dumps(
                INSTALLED
                if name == "sglang"
                else {**INSTALLED, "version": None, "installed": False}
            )
            for name, engine in ENGINES.items()
        },
    }
    return site


def test_the_inventory_of_a_gpu_box_loads_and_says_what_was_found(tmp_path: Path) -> None:
    site, path = b300(), tmp_path / "b300.yaml"
    done = init(site, path)
    text = path.read_text("utf-8")
    assert done.new
    for line in (
        "# 8 x NVIDIA B300 SXM6 AC, 275040 MiB, sm_103; driver",
        "# joined by: nvlink; NVSwitch fabric: ready.",
        "# found: sglang 0.5.13 in /root/sglang/bin/python",
        "  host: b300.example.net",
        "  port: 2222",
    ):
        assert line in text
    box = load_box(str(path))
    assert (box.name, box.reach) == ("b300", site.box.reach)
    assert box.deployment == load_box("local").deployment


def test_a_second_time_changes_nothing_and_another_file_is_never_overwritten(
    tmp_path: Path,
) -> None:
    path = tmp_path / "b300.yaml"
    init(b300(), path)
    assert not init(b300(), path).new
    path.write_text("about: mine\n", "utf-8")
    with pytest.raises(UsageError, match="is there already") as caught:
        init(b300(), path)
    assert "--name" in str(caught.value.hint)
    assert path.read_text("utf-8") == "about: mine\n"


@pytest.mark.parametrize(
    ("text", "name", "reach"),
    [
        ("local", "here", Reach()),
        ("b300", "b300", Reach(via="ssh", host="b300")),
        ("root@10.0.0.7", "10-0-0-7", Reach(via="ssh", host="10.0.0.7", user="root")),
        ("a@H200.net:22", "h200", Reach(via="ssh", host="H200.net", user="a", port=22)),
    ],
)
def test_a_target_is_read_as_ssh_would(text: str, name: str, reach: Reach) -> None:
    box = target(text, None)
    assert (box.name, box.reach) == (name, reach)


@pytest.mark.parametrize("text", ["", "a b", "root@", "x@y@z:1", "host:port"])
def test_what_names_no_box_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no box"):
        target(text, None)


def test_this_machine_gets_an_inventory_that_can_be_planned(machine: Machine) -> None:
    done = machine.ddops("init", "local", "--name", "mine", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"] == "inventories/mine.yaml"
    assert "nothing to change" in machine.ddops("init", "local", "--name", "mine").stdout
    explained = machine.ddops("explain", "mine")
    assert explained.returncode == 0, explained.stderr
