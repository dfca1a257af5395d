"""Every archived run still is what it claims to be, for this version of ddops."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT

BUNDLES = sorted((ROOT / "repro").glob("*/*.tar.zst"))


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_an_archived_bundle_verifies_and_is_listed(bundle: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ddops", "bundle", "verify", str(bundle)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    listed = (ROOT / "repro" / "README.md").read_text(encoding="utf-8")
    assert str(bundle.relative_to(ROOT / "repro")) in listed
