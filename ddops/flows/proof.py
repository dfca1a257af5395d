"""Prove an environment where it lies: imports, pip's own check, one compiled kernel.

What fails at the source in the same way is no fault of the journey: it is noted, not refused.
"""

from __future__ import annotations

import json

from ddops.errors import StepError
from ddops.facts import gpu
from ddops.flows.arrival import Arrival
from ddops.host.base import Host
from ddops.spec.command import Run
from ddops.spec.environment import Manifest
from ddops.steps.environment import imports

_IMPORT = """
import importlib, json, sys
failed = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed[name] = f"{type(error).__name__}: {error}"
sys.stdout.write("\\n" + json.dumps(failed))
"""

# Triton reads the source of a kernel from its file; a fresh cache makes it compile.
_IN_A_FILE = """
folder=$(mktemp -d) && cat > "$folder/kernel.py" || exit
TRITON_CACHE_DIR=$folder "$1" "$folder/kernel.py"
code=$?
rm -rf "$folder"
exit $code
"""
_KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) * 2)

ones = torch.ones(64, device="cuda")
double[(1,)](ones, BLOCK=64)
assert ones.eq(2).all().item()
"""


def prove(source: Host, interpreter: str, arrival: Arrival) -> list[str]:
    """Raises `StepError`. Returns what is not right, and was not right at the source either."""
    host, python, seen = arrival.site.host, f"{arrival.path}/bin/python", arrival.seen
    notes = []
    for failed in (_failed_imports, _complaints):
        here = failed(host, python, seen)
        if not here:
            continue
        there = failed(source, interpreter, seen)
        new = [text for name, text in here.items() if name not in there]
        if new:
            raise _broken(arrival, "\n".join(new))
        notes += [f"as at the source: {text}" for text in here.values()]
    if seen.has("triton") and seen.cuda and gpu.parse(host.run(gpu.COMMAND).stdout):
        _compile_a_kernel(host, python, arrival)
    return notes


def _failed_imports(host: Host, python: str, seen: Manifest) -> dict[str, str]:
    names = imports(seen)
    argv = (python, "-I", "-c", _IMPORT, *names)
    said = host.run(Run(argv=argv, why="import what the engine needs", timeout_s=1800.0))
    if not said.ok:
        last = (said.stderr.strip().splitlines() or [f"exit code {said.code}"])[-1]
        return {"": f"importing {', '.join(names)} ended Python: {last}"}
    failed: dict[str, str] = json.loads(said.stdout.rsplit("\n", 1)[-1])
    return {name: f"`import {name}`: {why}" for name, why in failed.items()}


def _complaints(host: Host, python: str, seen: Manifest) -> dict[str, str]:
    """An environment made by uv has no pip: then there is nobody to ask."""
    if not seen.has("pip"):
        return {}
    argv = (python, "-I", "-m", "pip", "--disable-pip-version-check", "check")
    said = host.run(Run(argv=argv, why="ask pip whether the packages fit", timeout_s=600.0))
    return {} if said.ok else {line: line for line in said.stdout.strip().splitlines()}


def _compile_a_kernel(host: Host, python: str, arrival: Arrival) -> None:
    argv = ("sh", "-c", _IN_A_FILE, "sh", python)
    said = host.run(Run(argv=argv, why="compile a kernel", stdin=_KERNEL, timeout_s=600.0))
    if not said.ok:
        raise _broken(arrival, said.stderr.strip()[-3000:])


def _broken(arrival: Arrival, detail: str) -> StepError:
    return StepError(
        f"the environment does not work on box `{arrival.site.box.name}`; the one before stays",
        detail=detail,
        hint=f"it lies in {arrival.path}: mend the box, then run the same command again",
    )
