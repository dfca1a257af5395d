"""What lies on a box already: sets of weights, and virtual environments."""

from __future__ import annotations

from ddops.spec.command import Run
from ddops.spec.observed import Stock, Stored, Venv
from ddops.spec.place import Place

# Environments are looked for where people put them; the depth keeps it a matter of milliseconds.
_SCRIPT = r"""
for set in "$1"/*; do
  [ -d "$set" ] && printf 'weights\t%s\t%s\n' "$(du -sk "$set" | cut -f1)" "$set"
done
find "$2" "$HOME" /opt /srv -maxdepth 3 -name pyvenv.cfg 2>/dev/null | sort -u |
while read -r config; do
  version=$(sed -n 's/^version\(_info\)\{0,1\} *= *//p' "$config" | head -n 1)
  printf 'venv\t%s\t%s\n' "$version" "${config%/pyvenv.cfg}"
done
true
"""


def command(place: Place) -> Run:
    argv = ("sh", "-c", _SCRIPT, "sh", place.weights, place.root)
    return Run(argv=argv, why="look what lies on the box already")


def parse(text: str) -> Stock:
    rows = [line.split("\t") for line in text.splitlines()]
    return Stock(
        weights=tuple(
            Stored(path=path, size=int(size) * 1024)
            for kind, size, path in rows
            if kind == "weights"
        ),
        venvs=tuple(Venv(path=path, python=said) for kind, said, path in rows if kind == "venv"),
    )
