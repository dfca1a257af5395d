"""Which ddops measured: its version, and the commit of the checkout it ran from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import ddops


def commit() -> str | None:
    """The checkout's commit, with `+dirty` when files differ; None for an installed wheel."""
    root = Path(ddops.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    head = _git(root, "rev-parse", "HEAD")
    if head is None:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{head}+dirty" if changed else head


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
