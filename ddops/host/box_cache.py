"""Sent to a machine as text: give, or take in, the kernels that engines compiled.

`python3 -c TEXT give CACHE` writes a tar; `python3 -c TEXT take CACHE OLD` reads one that lay in
OLD. What is there already stays. Times are kept to the microsecond: some caches go by them.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from pathlib import Path

_NO_KERNELS = {".coming", "huggingface", "pip", "uv"}


def give(cache: Path) -> None:
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as packed:
        for folder, folders, names in os.walk(cache):
            folders[:] = [name for name in folders if name not in _NO_KERNELS]
            for name in names:
                path = os.path.join(folder, name)
                if not name.endswith((".lock", "lock")) and ".tmp." not in path:
                    packed.add(path, os.path.relpath(path, cache))


def take(cache: Path, old: str) -> None:
    coming = cache / ".coming"
    shutil.rmtree(coming, ignore_errors=True)
    try:
        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as packed:
            if hasattr(tarfile, "data_filter"):
                packed.extractall(coming, filter="data")
            else:
                packed.extractall(coming)  # an older Python
        sys.stdout.write(f"{settle(coming, cache, old)}\n")
    finally:
        shutil.rmtree(coming, ignore_errors=True)


def settle(coming: Path, cache: Path, old: str) -> int:
    """How many files were new. Triton's lists of a kernel's files come last: they make it valid."""
    files = [path for path in coming.rglob("*") if path.is_file()]
    new = 0
    for path in sorted(files, key=lambda path: path.name.startswith("__grp__")):
        if path.name.startswith("__grp__"):  # it names them by absolute paths
            text = path.read_text("utf-8")
            path.write_text(text.replace(f'"{old}/', f'"{cache}/'), "utf-8")
        target = cache / path.relative_to(coming)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
            new += 1
    return new


if __name__ == "__main__":
    if sys.argv[1] == "give":
        give(Path(sys.argv[2]))
    else:
        take(Path(sys.argv[2]), sys.argv[3])
