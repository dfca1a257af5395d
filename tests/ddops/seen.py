"""An observed box, to be changed where a test needs it."""

from collections.abc import Sequence
from typing import Any

from ddops.spec.observed import Observed

SEEN: dict[str, dict[str, Any]] = {
    "system": {
        "os": "Debian",
        "kernel": "Linux 6.1",
        "glibc": "2.36",
        "arch": "x86_64",
        "cpu": "a CPU",
        "cpu_flags": ["avx2"],
        "cores": 2,
        "memory": 8 * 10**9,
        "memory_available": 6 * 10**9,
        "disk_free": 10**11,
        "user": "alice",
        "pid1": "systemd",
        "user_manager": True,
        "root": False,
    },
    "python": {
        "executable": "/v/bin/python",
        "version": "3.12.1",
        "base": "/usr",
        "headers": True,
        "engine": True,
        "torch": "2.13.0",
        "torch_cuda": "13.0",
        "missing": [],
    },
    "hardware": {
        "on_bus": 0,
        "nodes": 0,
        "complaint": None,
        "states": [],
        "topology": {"links": []},
        "fabric_manager": "absent",
        "cuda": {"driver": None, "toolkits": []},
    },
    "model": {"source": "file:/m", "root": "/m", "artefacts": [], "offer": None},
    "port": {"port": 8421, "holder": None},
    "service": {
        "kind": "background",
        "sudo": False,
        "state": "running",
        "pid": 7,
        "uptime_s": 1.0,
        "restarts": 0,
        "exit_code": None,
        "unit_sha256": None,
        "env_sha256": None,
    },
    "health": {"alive": True, "ready": True, "status": "ready"},
}


def observed(
    *, gpus: Sequence[Any] = (), tools: Sequence[str] = (), **changes: dict[str, Any]
) -> Observed:
    parts = {name: {**part, **changes.get(name, {})} for name, part in SEEN.items()}
    more = {"gpus": tuple(gpus), "tools": tuple(tools), "drafter": None}
    return Observed.model_validate({**parts, **more})
