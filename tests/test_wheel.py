"""What `pip install ddops` installs works from any folder, without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ddops.flows.bundle import create
from tests.checkout import files
from tests.ddops import records
from tests.ddops.machine import free_port

HOMES = {  # where a folder of the checkout lies in the wheel
    "ddops": "ddops",
    "runtime": "",  # runtime/ddtree is `ddtree`
    "templates": "ddops/shipped/templates",
    "inventories": "ddops/shipped/inventories",
}


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel unpacked as pip does it; its dependencies come from the interpreter's own."""
    home = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(home)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    return home


def run(site: Path, folder: Path, *line: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(site), "HOME": str(folder)}
    ran = subprocess.run(
        [sys.executable, *line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("folder", HOMES)
def test_every_file_that_is_not_code_travels(wheel: Path, folder: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    data = [path for path in files() if path.parts[0] == folder and path.suffix != ".py"]
    wanted = [Path(HOMES[folder], *p.parts[1:]) for p in data if p.name != "README.md"]
    assert [p for p in wanted if p.as_posix() not in inside] == []


def test_the_wheel_is_what_is_run(site: Path, tmp_path: Path) -> None:
    for module in ("ddops", "ddtree"):
        there = run(site, tmp_path, "-c", f"import {module}; print({module}.__file__)")
        assert there.startswith(str(site))


def test_it_knows_its_version_and_its_verbs(site: Path, tmp_path: Path) -> None:
    assert run(site, tmp_path, "-m", "ddops", "--version").startswith("ddops 0.")
    assert "bundle" in run(site, tmp_path, "-m", "ddops", "--help")


def test_it_explains_and_plans_the_embedded_box(site: Path, tmp_path: Path) -> None:
    explained = json.loads(run(site, tmp_path, "-m", "ddops", "explain", "local", "--json"))
    # on another port: whoever runs the tests may have the box running
    shipped = (site / "ddops" / "shipped" / "inventories" / "local.yaml").read_text("utf-8")
    box = tmp_path / "box.yaml"
    box.write_text(f"{shipped}  serving:\n    port: {free_port()}\n", "utf-8")
    planned = json.loads(run(site, tmp_path, "-m", "ddops", "plan", str(box), "--json"))
    for said in (explained, planned):
        flags = {argument["flag"]: argument["value"] for argument in said["arguments"]}
        assert flags["--served-model-name"] == "SmolLM2-135M-Instruct"


def test_it_draws_a_report_and_packs_a_bundle(site: Path, tmp_path: Path) -> None:
    run_dir = str(records.written(tmp_path / "results"))
    page = Path(run(site, tmp_path, "-m", "ddops", "report", run_dir).strip())
    assert "<svg" in page.read_text()
    archive = run(site, tmp_path, "-m", "ddops", "bundle", "create", run_dir).strip()
    assert "derived again" in run(site, tmp_path, "-m", "ddops", "bundle", "verify", archive)


def test_the_engine_starts_without_the_ops_half(site: Path, tmp_path: Path) -> None:
    assert "serve" in run(site, tmp_path, "-m", "ddtree", "--help")


def test_a_bundle_is_checked_on_a_machine_that_has_only_the_wheel(
    elsewhere: Path, tmp_path: Path
) -> None:
    archive = create(records.written(tmp_path / "results")).archive
    line = [str(elsewhere / "ddops"), "bundle", "verify", str(archive)]
    alone = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    ran = subprocess.run(line, cwd="/", env=alone, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "holds: L0, L1, L3" in ran.stdout
    asked = "import importlib.util as u; print(u.find_spec('torch'), u.find_spec('starlette'))"
    python = [str(elsewhere / "python"), "-c", asked]
    there = subprocess.run(python, env=alone, capture_output=True, text=True, check=True)
    assert there.stdout == "None None\n"
