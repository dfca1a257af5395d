"""What no arithmetic here can know: said with every estimate."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = (
    "accept: it belongs to drafter and text, and is taken as given",
    "whether an engine runs at that budget at all: the record's crashed above 8 with CUDA graphs",
    "how a tree attention kernel grows with nodes and context: there is no measurement of it",
    "which experts are hot: text of one kind touches fewer than uniform routing says",
    "expert parallelism: its step waits for the GPU with the most work",
    "clocks, throttling, other work on the box, and prefills between the steps",
)
