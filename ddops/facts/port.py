"""Who listens on a port."""

from __future__ import annotations

import json

from ddops.spec.command import Run
from ddops.spec.observed import Holder, Port
from ddops.spec.place import Place

_PROBE = """
import json, sys, psutil
port = int(sys.argv[1])
held = [c for c in psutil.net_connections("tcp") if c.status == "LISTEN" and c.laddr.port == port]
pid = next((c.pid for c in held if c.pid), None)
try:
    words = psutil.Process(pid).cmdline() if pid else []
except psutil.Error:
    words = []
program = " ".join(words)[:120] or None
print(json.dumps({"held": bool(held), "pid": pid, "program": program}))
"""


def command(place: Place, port: int) -> Run:
    return Run(argv=(place.python, "-c", _PROBE, str(port)), why=f"look who holds port {port}")


def parse(text: str, port: int) -> Port:
    said = json.loads(text)
    holder = Holder(pid=said["pid"], program=said["program"]) if said["held"] else None
    return Port(port=port, holder=holder)
