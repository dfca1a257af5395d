"""200 random single changes to a signed bundle: each is found and its file named."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ddops.bundle import bag
from ddops.errors import BundleError
from ddops.flows.bundle import repack, sign
from ddops.flows.bundle_verify import verify
from ddops.flows.extract import extract
from tests.checkout import ROOT
from tests.ddops.flows.mutations import OF_ARCHIVES, OF_FOLDERS, Scene

MUTATIONS = 200
GOLDEN = ROOT / "tests/ddops/bundle/golden/schema-1.tar.zst"


def key(folder: Path, name: str) -> Path:
    made = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", made], check=True)
    return made


@pytest.fixture
def signers(copy: Path, tmp_path: Path) -> Path:
    """Those who may sign; one of them has signed `copy`."""
    mine, trusted = key(tmp_path, "mine"), tmp_path / "signers"
    trusted.write_text(f"alice@example.org {mine.with_suffix('.pub').read_text()}")
    assert sign(copy, mine)
    return trusted


@pytest.fixture
def foreign(bundle: Path, signers: Path, tmp_path: Path) -> tuple[bytes, ...]:
    """A signature of another bundle by who may sign, and one of this bundle by who may not."""
    other = extract(GOLDEN, tmp_path / "other").folder
    same = Path(shutil.copytree(bundle, tmp_path / "same"))
    assert sign(other, tmp_path / "mine")
    assert sign(same, key(tmp_path, "strange"))
    return tuple((folder / bag.SIGNATURE).read_bytes() for folder in (other, same))


def found(path: Path, signers: Path) -> str:
    try:
        return "\n".join(map(str, verify(path, signers).findings))
    except BundleError as told:
        return f"{told.subject}\n{told.detail}"


def test_no_single_change_stays_unseen_and_no_untouched_bundle_is_accused(
    copy: Path, signers: Path, foreign: tuple[bytes, ...], tmp_path: Path
) -> None:
    scene = Scene(random.Random(20261129), foreign)
    packed = tmp_path / "packed.tar.zst"
    repack(copy, packed)
    unseen, tried = [], Counter[str]()
    for number in range(MUTATIONS):
        change = (OF_FOLDERS + OF_ARCHIVES)[number % len(OF_FOLDERS + OF_ARCHIVES)]
        target = tmp_path / str(number)
        if change in OF_FOLDERS:
            shutil.copytree(copy, target)
        else:
            shutil.copy(packed, target)
        assert number % 20 or found(target, signers) == ""
        named = change(target, scene)
        if named not in (said := found(target, signers)) or not said:
            unseen.append(f"{number} {change.__name__} {named}")
        tried[change.__name__] += 1
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    assert unseen == []
    assert min(tried.values()) >= 14
