"""A replay makes the packages of its bundle again, from an index that the test has made."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddops.engines.table import ENGINES
from ddops.errors import CheckError, StepError
from ddops.flows.bundle import create
from ddops.flows.bundle_verify import unpacked
from tests.checkout import ROOT
from tests.ddops.flows.bench_machine import STANDIN, BenchMachine
from tests.ddops.machine import Done
from tests.ddops.venvs import WHEEL

THEN, NOW = "1.0", "2.0"
RUNNER = f"""\
import runpy, sys
sys.path[:0] = [{str(ROOT)!r}]
runpy.run_path({str(STANDIN / "ddtree" / "__main__.py")!r}, run_name="__main__")
"""


def wheel(index: Path, version: str) -> None:
    """`torch`, as far as a name goes: the mock engine, and modules that it is asked for."""
    modules = {"ddtree", *ENGINES["ddtree"].needed}
    files = {f"{name}/__init__.py": "" for name in sorted(modules)}
    files |= {"ddtree/__main__.py": RUNNER, "torch/version.py": "cuda = None\n"}
    info = f"torch-{version}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
    files[f"{info}/WHEEL"] = WHEEL
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(index / f"torch-{version}-py3-none-any.whl", "w") as made:
        for name, text in files.items():
            made.writestr(name, text)


class Repeating(BenchMachine):
    """A machine whose engine runs in an environment of its own, with one package."""

    def __post_init__(self) -> None:
        self.index = self.folder / "index"
        self.index.mkdir()
        for version in (THEN, NOW):
            wheel(self.index, version)
            self.venv(version)
        super().__post_init__()
        self.matrix(concurrency=[1], variants=[{"name": "ar", "mode": "ar"}])

    def venv(self, version: str) -> None:
        home = self.folder / version
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
        line = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install"]
        words = ["--quiet", "--no-index", "--no-deps", f"--find-links={self.index}"]
        subprocess.run([*line, *words, f"torch=={version}"], check=True, capture_output=True)

    def interpreter(self, version: str) -> str:
        return str(self.folder / version / "bin" / "python")

    def ddops(self, *arguments: str, **env: str) -> Done:
        return super().ddops(*arguments, **{"DDOPS_PYTHON": self.interpreter(NOW), **env})

    def pack(self) -> Path:
        done = self.ddops(
            *("bench", "stand", "--matrix", "small.yaml", "--yes"),
            DDOPS_PYTHON=self.interpreter(THEN),
        )
        assert done.returncode == 0, done.stderr
        return create(self.run, self.folder / "kept").archive

    def replay(self, first: Path, *words: str, **env: str) -> Done:
        line = ("bundle", "replay", str(first), "--box", "stand", "--tolerance", "999", "--yes")
        links = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index), **env}
        return self.ddops(*line, *words, **links)

    def inside(self, out: str, name: str) -> Any:
        (archive,) = self.folder.glob(f"{out}/bundles/*.tar.zst")
        with unpacked(archive) as folder:
            return json.loads((folder / "data" / name).read_bytes())


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repeating]:
    made = Repeating(tmp_path_factory.mktemp("repeating"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def first(box: Repeating) -> Path:
    return box.pack()


def test_packages_that_are_not_to_be_had_end_it_and_the_next_call_makes_them(
    box: Repeating, first: Path
) -> None:
    """The box keeps its own: what it served before runs in that again."""
    nowhere = str(box.folder / "kept")
    refused = box.replay(first, "--out", "made", PIP_FIND_LINKS=nowhere)
    assert refused.returncode == StepError.exit_code
    assert f"torch=={THEN}" in refused.stderr
    assert not list(box.folder.glob("made/**/*.c1.*.json"))

    done = box.replay(first, "--out", "made")
    assert done.returncode == 0, done.stderr
    assert "install 1 packages" in done.stderr
    packages = box.inside("made", "environment.json")["packages"]
    assert ("torch", THEN) in {(each["name"], each["version"]) for each in packages}
    assert "torch" not in " ".join(box.inside("made", "bundle.json")["based_on"]["drift"])
    unit = json.loads((box.box_home / "unit.json").read_text("utf-8"))
    assert unit["argv"][0] == box.interpreter(NOW)
    again = box.replay(first, "--out", "made")
    assert again.returncode == 0, again.stderr
    assert "install" not in again.stderr


def test_with_the_packages_of_the_box_the_difference_is_written_down(
    box: Repeating, first: Path
) -> None:
    done = box.replay(first, "--out", "as-is", "--as-is")
    assert done.returncode == 0, done.stderr
    drift = box.inside("as-is", "bundle.json")["based_on"]["drift"]
    assert f"torch was {THEN}, on the box it is {NOW}" in drift
    here = ("bundle", "verify", str(first), "--level", "L4", "--box", "stand")
    told = box.ddops(*here)
    assert told.returncode == CheckError.exit_code
    assert f"L4 data/environment.json: torch was {THEN}, on the box it is {NOW}" in told.stderr
