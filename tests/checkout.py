"""The checkout as the house gates see it: which files it holds, and what they say."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@cache
def files(*suffixes: str) -> tuple[Path, ...]:
    """Every file git tracks or would track, relative to the root, with one of `suffixes`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (Path(name) for name in listed.stdout.split("\0") if name)
    return tuple(
        sorted(p for p in paths if (not suffixes or p.suffix in suffixes) and (ROOT / p).is_file())
    )


def text(path: Path) -> str:
    """The file's text; empty for a binary file."""
    try:
        return (ROOT / path).read_text("utf-8")
    except UnicodeDecodeError:
        return ""
