"""A real headless browser: pictures of a page, and what its scripts find out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_BINARY = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage"
)

needs_chromium = pytest.mark.skipif(
    _BINARY is None, reason="no `chromium` here: `apt-get install chromium`"
)


def screenshot(page: Path, *, dark: bool = False, width: int = 1100) -> Path:
    picture = page.with_suffix(".dark.png" if dark else ".png")
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    _browse(page, f"--window-size={width},1600", f"--screenshot={picture}", *scheme)
    return picture


def document(page: Path, *, width: int = 1100) -> str:
    """The page's HTML after its scripts have run."""
    return _browse(page, f"--window-size={width},1600", "--dump-dom", "--virtual-time-budget=2000")


def _browse(page: Path, *flags: str) -> str:
    assert _BINARY is not None
    profile = f"--user-data-dir={page.parent / 'profile'}"
    ran = subprocess.run(
        [_BINARY, *_FLAGS.split(), profile, *flags, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout
