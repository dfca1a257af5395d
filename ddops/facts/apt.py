"""What apt would fetch for packages that are missing, and who holds its lock."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddops.spec.command import Run
from ddops.spec.observed import Apt, Holder

# The kernel names whoever holds a lock by the file's inode; no tool and no rights are needed.
_LOCK = r"""
for file in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock; do
  inode=$(stat -c %i "$file" 2>/dev/null) || continue
  pid=$(sed -n "s/.* \([0-9]*\) [0-9a-f:]*:$inode .*/\1/p" /proc/locks | head -n 1)
  [ -n "$pid" ] && { echo "$pid $(tr '\0' ' ' </proc/$pid/cmdline)"; break; }
done
true
"""
_OFFER = rf"""
echo "cloud-init: $(command -v cloud-init >/dev/null && cloud-init status 2>/dev/null)"
apt-get --print-uris -qq -y --no-install-recommends -o Debug::NoLocking=1 install "$@" 2>&1
echo "holder:"
{_LOCK}
"""
_URI = re.compile(r"^'[^']*' \S+ (\d+) ", re.M)


def command(packages: Sequence[str]) -> Run:
    why = f"ask apt about {' '.join(packages)}"
    return Run(argv=("env", "LC_ALL=C", "sh", "-c", _OFFER, "sh", *packages), why=why)


HOLDER = Run(argv=("sh", "-c", _LOCK), why="look who holds apt's lock")


def parse(text: str) -> Apt:
    said, _, holder = text.partition("\nholder:\n")
    sizes = [int(size) for size in _URI.findall(said)]
    unknown = "Unable to locate package" in said or "no installation candidate" in said
    return Apt(
        count=len(sizes),
        size=None if unknown else sum(sizes),
        cloud_init="status: running" in said,
        holder=parse_holder(holder),
    )


def parse_holder(text: str) -> Holder | None:
    pid, _, program = text.strip().partition(" ")
    if not pid.isdigit():
        return None
    return Holder(pid=int(pid), program=" ".join(program.split())[:120] or None)
