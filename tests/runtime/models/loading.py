"""Loads a folder within so much memory: `python loading.py FOLDER RANK SIZE BYTES`.

BYTES is what the process may add to its data, the mapped shards aside.
"""

from __future__ import annotations

import resource
import sys
import threading
from pathlib import Path

import torch

from ddtree.models.llama import Llama
from ddtree.models.load import open_target
from ddtree.models.split import Split
from ddtree.parallel.group import Group

THREAD_STACK = 1 << 18


def data_bytes() -> int:
    """What the limit counts: every private mapping that can be written to."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmData:")[2].split()[0]) * 1024


def main(folder: str, rank: int, size: int, more: int) -> None:
    torch.set_num_threads(1)
    threading.stack_size(THREAD_STACK)
    checkpoint = open_target(Path(folder))  # maps the shards
    limit = data_bytes() + more
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    like = torch.empty(0, dtype=torch.float32)
    Llama(checkpoint.shape, checkpoint.weights, like, Split(Group(rank, size)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
