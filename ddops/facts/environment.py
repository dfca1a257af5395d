"""The packages of the engine's Python: name, version, and the hash of what was installed."""

from __future__ import annotations

from ddops.spec.bundle import Environment
from ddops.spec.command import Run

_PROBE = """
import hashlib, json, platform
from importlib.metadata import distributions
found = {}
for package in distributions():
    name = (package.metadata["Name"] or "").lower().replace("_", "-")
    record = package.read_text("RECORD")
    digest = hashlib.sha256(record.encode()).hexdigest() if record else None
    found.setdefault(name, {"name": name, "version": package.version, "record_sha256": digest})
print(json.dumps({
    "python": f"{platform.python_implementation()} {platform.python_version()}",
    "platform": platform.platform(),
    "packages": [found[name] for name in sorted(found) if name],
}))
"""


def command(interpreter: str) -> Run:
    return Run(argv=(interpreter, "-c", _PROBE), why="list the packages of the engine's Python")


def parse(text: str) -> Environment:
    return Environment.model_validate_json(text)
