"""The interpreter that would run the engine, and whether it can. Imports nothing heavy."""

from __future__ import annotations

import json

from ddops.facts import versions
from ddops.spec.command import Run
from ddops.spec.observed import Python

_PROBE = (
    versions.PROBE
    + r"""
import json, platform, re, sysconfig
from importlib.util import find_spec

package = find_spec("torch")
built = Path(package.origin).with_name("version.py") if package and package.origin else None
cuda = re.search(r"^cuda\b.*= '([\d.]+)'", built.read_text() if built else "", re.M)
print(json.dumps({
    "executable": sys.executable,
    "version": platform.python_version(),
    "base": sys.base_prefix,
    "headers": Path(sysconfig.get_path("include"), "Python.h").exists(),
    "engine": find_spec(sys.argv[1]) is not None,
    "torch": installed("torch") or described("torch"),
    "torch_cuda": cuda[1] if cuda else None,
    "missing": [name for name in sys.argv[1:] if find_spec(name) is None],
}))
"""
)


def command(interpreter: str, needed: tuple[str, ...]) -> Run:
    """`needed`: modules by the name they are imported under, the engine's own first."""
    return Run(argv=(interpreter, "-c", _PROBE, *needed), why="look at the engine's Python")


def parse(text: str) -> Python:
    return Python.model_validate(json.loads(text))
