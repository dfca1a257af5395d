"""What rules ask about the engine's Python: versions and two assemblers. Imports nothing heavy."""

from __future__ import annotations

from ddops.engines.base import Engine
from ddops.facts import versions
from ddops.spec.command import Run
from ddops.spec.software import Software

_PROBE = (
    versions.PROBE
    + r"""
import json, os, re, shutil, subprocess
from importlib.util import find_spec

def folder(module):
    spec = find_spec(module)
    where = spec and spec.submodule_search_locations
    return Path(next(iter(where))) if where else None

def release(program):
    if not (program and os.access(program, os.X_OK)):
        return None
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"release (\d+\.\d+)", said)
    return found[1] if found else None

package, module = sys.argv[1:]
there = folder(module) is not None
triton, attention = folder("triton"), folder("flash_attn")
nccl = next((v for n in ("nvidia-nccl-cu13", "nvidia-nccl-cu12") if (v := installed(n))), None)
cuda = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
print(json.dumps({
    "installed": there,
    "version": installed(package) or (described(package) if there else None),
    "nccl": nccl,
    "triton": triton and installed("triton"),
    "triton_ptxas": release(triton and str(triton / "backends/nvidia/bin/ptxas")),
    "cuda_ptxas": cuda if os.access(cuda, os.X_OK) else None,
    "flash_attn_cute": bool(attention and (attention / "cute").is_dir()),
}))
"""
)


def command(interpreter: str, engine: Engine) -> Run:
    argv = (interpreter, "-c", _PROBE, engine.package, engine.needed[0])
    return Run(argv=argv, why="look at the engine and what it leans on")


def parse(text: str) -> Software:
    return Software.model_validate_json(text)


def help_of(interpreter: str, engine: Engine) -> Run:
    """Slow where the engine loads torch to list its options."""
    argv = (interpreter, *engine.help)
    return Run(argv=argv, why="list the engine's options", env={"COLUMNS": "200"}, timeout_s=180.0)
