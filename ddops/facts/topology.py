"""How the GPUs of a box are joined: the driver's own matrix, without its network cards."""

from __future__ import annotations

import re

from ddops.spec.command import Run
from ddops.spec.hardware import Topology

COMMAND = Run(argv=("nvidia-smi", "topo", "-m"), why="look how the GPUs are joined", timeout_s=60.0)
_UNDERLINED = re.compile(r"\x1b\[\d*m")


def parse(text: str) -> Topology:
    """Text that is no matrix (one GPU, no driver) means no links."""
    lines = [_UNDERLINED.sub("", line).split() for line in text.splitlines()]
    head = next((words for words in lines if words and words[0] == "GPU0"), [])
    count = sum(re.fullmatch(r"GPU\d+", word) is not None for word in head)
    rows = [
        words[1 : count + 1]
        for words in lines
        if words and re.fullmatch(r"GPU\d+", words[0]) and "X" in words[1 : count + 1]
    ]
    return Topology(links=tuple(tuple(row) for row in rows))
