"""GPU boxes as the driver's tools describe them, and the engines installed on them, for rules."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from ddops.engines.base import Engine
from ddops.engines.table import ENGINES
from ddops.facts import fabric, gpu, gpu_state, hardware, landing, software, topology
from ddops.flows.advise import Advised, advise
from ddops.flows.site import Site
from ddops.host.scripted import Scripted
from ddops.spec.box import Box
from ddops.spec.load import load_box
from ddops.spec.observed import Holding, Observed, Offer, Offered
from tests.checkout import ROOT
from tests.ddops.seen import observed

RECORDED = ROOT / "tests" / "ddops" / "facts" / "recorded"
PYTHON = "/root/.local/share/ddops/venv/bin/python"
GIB = 2**30
KIMI_BYTES = 554 * GIB  # of the checkpoint
DRAFTER_BYTES = 6 * GIB
TREE_FLAGS = "  --speculative-ddtree-budget\n"
"""What the patch of PR 27509 adds to SGLang's options."""


def seen(machine: str, **changes: Any) -> Observed:
    """A box with the GPUs of `machine`; weights are still to be fetched, their sizes known."""
    names = {"gpus.csv": gpu, "report.txt": gpu_state, "topology.txt": topology}
    said = {part.COMMAND.line: _read(machine, name) for name, part in names.items()}
    said[fabric.COMMAND.line] = _read(machine, "fabric.txt")
    gpus, state = hardware.look(Scripted(said))
    box = observed(
        service={"kind": "systemd", "sudo": False, "state": "absent"}, system={"user": "root"}
    )
    there = {
        "gpus": gpus,
        "hardware": state,
        "model": _held("hf:moonshotai/Kimi-K2.6@main", KIMI_BYTES),
        "drafter": _held("hf:nvidia/Kimi-K2.6-DFlash@main", DRAFTER_BYTES),
    }
    return box.model_copy(update={**there, **changes})


def site(box: Box, *, version: str | None, options: str = "", **installed: Any) -> Site:
    """A box whose engine says `options` as its help; empty: it cannot say its help."""
    engine: Engine = ENGINES[box.deployment.engine]
    installed = {
        "version": version,
        "installed": True,
        "nccl": "2.28.9",
        "triton": "3.6.0",
        "triton_ptxas": "13.0",
        "cuda_ptxas": None,
        "flash_attn_cute": False,
        **installed,
    }
    answers = {
        software.command(PYTHON, engine).line: json.dumps(installed),
        software.help_of(PYTHON, engine).line: options,
    }
    there = Site(Scripted(answers), box)
    headings = ("python", "minors", "zstd", "points", "occupied", "present")
    answers[landing.command(there.place).line] = "\n".join(f"== {one}\n" for one in headings)
    return there


def recorded_options(release: str) -> str:
    file = files("ddops.engines") / "recorded" / f"{release}.txt"
    return file.read_text("utf-8")


def patched(release: str) -> str:
    """The options of an SGLang with a draft tree."""
    return recorded_options(release) + TREE_FLAGS


def box_of(name: str, *, decoding: dict[str, Any] | None = None, **changes: Any) -> Box:
    """A shipped inventory, with keys of its deployment changed."""
    box = load_box(name)
    if decoding:
        changes["decoding"] = box.deployment.decoding.model_copy(update=decoding)
    return box.model_copy(update={"deployment": box.deployment.model_copy(update=changes)})


def advised(machine: str, box: Box, *, version: str | None, options: str = "") -> Advised:
    return advise(site(box, version=version, options=options), box.deployment, seen(machine))


def _held(source: str, size: int) -> Holding:
    root = f"/root/.local/share/ddops/weights/{source[3:].replace('/', '--')}"
    file = Offered(name="model.safetensors", url=None, size=size, sha256=None)
    return Holding(
        source=source, root=root, artefacts=(), offer=Offer(source=source, files=(file,))
    )


def _read(machine: str, name: str) -> str:
    path = RECORDED / machine / name
    return path.read_text("utf-8") if path.exists() else ""
