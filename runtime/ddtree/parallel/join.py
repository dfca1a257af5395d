"""How the ranks of one machine find each other: through a file, so that no port is open for it."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.distributed import FileStore, Store  # type: ignore[attr-defined]

from ddtree.parallel.group import Group

# No rank waits for another's weights, compilers or clients inside a collective: one that takes
# this long hangs.
HANGS_S = 120


def meet(size: int, folder: Path) -> Store:
    """Where the ranks find each other. Raises FileNotFoundError when the folder is gone: torch
    would look for it for five minutes, and let no other thread run meanwhile.
    """
    folder.stat()
    store = FileStore(str(folder / "store"), size)
    store.set_timeout(timedelta(seconds=HANGS_S))
    return store


def join(rank: int, size: int, store: Store, device: torch.device) -> Group:
    """Returns when all ranks are there. Collectives are NCCL's on CUDA, else gloo's."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all of them are here
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if cuda else "gloo",
        store=store,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=HANGS_S),
        device_id=device if cuda else None,
    )
    return Group(rank, size)


def leave(*, bereaved: bool = False) -> None:
    """The orderly end. `bereaved`: another rank is gone already, for which NCCL would wait."""
    if not distributed.is_initialized():
        return
    if not (bereaved and distributed.get_backend() == "nccl"):
        distributed.destroy_process_group()
