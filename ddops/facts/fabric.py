"""The fabric manager: the service that joins GPUs through their NVSwitches."""

from __future__ import annotations

from ddops.spec.command import Run
from ddops.spec.hardware import ManagerState

# A machine whose process 1 is no systemd may run it all the same.
_SCRIPT = r"""
systemctl show nvidia-fabricmanager --property=LoadState,ActiveState 2>/dev/null
for told in /proc/[0-9]*/comm; do
  read -r name <"$told" && [ "$name" = nv-fabricmanage ] && echo process
done 2>/dev/null
true
"""
COMMAND = Run(argv=("sh", "-c", _SCRIPT), why="look for the fabric manager")


def parse(text: str) -> ManagerState:
    said = text.split()
    if "process" in said or "ActiveState=active" in said:
        return "running"
    if "LoadState=loaded" not in said:
        return "absent"
    return "failed" if "ActiveState=failed" in said else "stopped"
