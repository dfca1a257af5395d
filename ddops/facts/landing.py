"""What a box has to offer to an environment: programs, interpreters, other environments."""

from __future__ import annotations

import re

from ddops.spec.command import Run
from ddops.spec.environment import NOTE, Landing
from ddops.spec.place import Place

_SCRIPT = r"""
say() { printf '\n== %s\n' "$1"; }
say python; python3 -c 'import platform; print(platform.python_version())' 2>/dev/null
say minors; for p in /usr/bin/python3.*; do [ -x "$p" ] && echo "${p#/usr/bin/python}"; done
say zstd; command -v zstd
to=$(readlink "$2")
say points; case "$to" in envs/*) echo "${to#envs/}" ;; esac
say occupied; case "$to" in envs/*) ;; *) [ -e "$2" ] && echo yes ;; esac
say present; for n in "$1"/*/"$3"; do [ -f "$n" ] && basename "$(dirname "$n")"; done
true
"""


def command(place: Place) -> Run:
    words = ("sh", place.environments, place.environment, NOTE)
    return Run(argv=("sh", "-c", _SCRIPT, *words), why="look at the environments of the box")


def parse(text: str) -> Landing:
    said = {
        heading: body.strip()
        for heading, body in re.findall(r"^== (\w+)\n(.*?)(?=^== |\Z)", text, re.M | re.S)
    }
    minors = re.findall(r"^3\.\d+$", said["minors"], re.M)
    return Landing(
        python=said["python"] or None,
        minors=tuple(minors),
        zstd=bool(said["zstd"]),
        points_to=said["points"] or None,
        occupied=said["occupied"] == "yes",
        present=tuple(said["present"].split()),
    )
