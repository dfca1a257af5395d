"""The two commands of the README: what they run, when they install, how they fail."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.checkout import ROOT

DDOPS = """#!/bin/sh
echo "$*" >> "$(dirname "$0")/calls"
case "$*" in
  report) echo run/report/report.html ;;
  "bundle create") echo run/bundle.tar.zst ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Enough of a checkout for make, with a venv that was just made."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    return tmp_path


def would_run(checkout: Path, target: str) -> str:
    make = ["make", "--dry-run", "--no-print-directory", target]
    return subprocess.run(make, cwd=checkout, capture_output=True, text=True, check=True).stdout


def stamp(checkout: Path, target: str) -> None:
    """As if the install that `target` would do had been done."""
    (line,) = [line for line in would_run(checkout, target).splitlines() if "touch" in line]
    for name in line.partition("touch ")[2].split():
        (checkout / name).touch()


@pytest.mark.parametrize("target", ["demo", "test"])
def test_nothing_is_installed_twice_until_pyproject_changes(checkout: Path, target: str) -> None:
    assert "pip install" in would_run(checkout, target)
    stamp(checkout, target)
    assert "pip install" not in would_run(checkout, target)
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("# more\n")
    assert "pip install" in would_run(checkout, target)


def test_what_the_tests_installed_is_enough_for_the_demo(checkout: Path) -> None:
    stamp(checkout, "test")
    assert "pip install" not in would_run(checkout, "demo")


def test_the_tests_come_last_so_that_their_verdict_is_the_last_line(checkout: Path) -> None:
    last = would_run(checkout, "test").splitlines()[-1]
    assert last.startswith(".venv/bin/pytest")


def test_the_demo_goes_the_whole_way_and_says_where_its_results_lie(tmp_path: Path) -> None:
    ddops = tmp_path / "ddops"
    ddops.write_text(DDOPS)
    ddops.chmod(0o755)
    ran = subprocess.run([ROOT / ".ci" / "demo", ddops], capture_output=True, text=True, check=True)
    assert (tmp_path / "calls").read_text().splitlines() == [
        "deploy local --yes",
        "bench local --matrix --yes",
        "report",
        "bundle create",
        "bundle verify run/bundle.tar.zst",
        "bundle show run/bundle.tar.zst",
    ]
    assert ran.stdout.splitlines()[-2:] == [
        "bundle  run/bundle.tar.zst",
        "report  run/report/report.html",
    ]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("[ $# = 1 ] && echo 'Python 3.9.2'; exit 1", "hint: name a newer one"),
        ('case "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; esac', "install python3.12-venv"),
    ],
)
def test_a_python_that_will_not_do_is_explained(tmp_path: Path, script: str, said: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    line = [str(ROOT / ".ci" / "venv"), str(python), str(tmp_path / "venv")]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert said in ran.stderr
    assert not (tmp_path / "venv").exists()


def test_no_python_at_all_is_explained(tmp_path: Path) -> None:
    line = [str(ROOT / ".ci" / "venv"), "python-that-is-not-there", str(tmp_path / "venv")]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "install Python 3.11 or newer" in ran.stderr


def test_what_a_gpu_is_measured_with_has_to_be_named(checkout: Path) -> None:
    stamp(checkout, "test")
    make = ["make", "--no-print-directory", "gpu"]
    done = subprocess.run(make, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "hint: `make gpu MODEL=model.gguf`" in done.stderr
