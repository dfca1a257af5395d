"""A real environment moves to another folder, and works there without the one it came from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ddops import venvs
from tests.ddops.machine import Done, run_here


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With one installed file patched by hand."""
    venv = venvs.make(tmp_path_factory.mktemp("source"), venvs.distribution_python())
    venvs.patch(venv)
    return venv


class Desk:
    """A working folder with the inventory of a box that is this machine."""

    def __init__(self, folder: Path, made: Path) -> None:
        self.folder, self.source = folder, made
        self.state = folder / "state"
        (folder / "inventories").mkdir()
        self.inventory()

    def inventory(self, **changes: Any) -> None:
        """`changes` replace keys of its deployment."""
        deployment = {
            "engine": "ddtree",
            "model": {"name": "x", "weights": {"source": "file:/x"}},
            "decoding": {"mode": "ar"},
            **changes,
        }
        about = {"state_dir": str(self.state), "deployment": deployment}
        (self.folder / "inventories" / "b.yaml").write_text(yaml.safe_dump(about), "utf-8")

    def ddops(self, *words: str) -> Done:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("DDOPS_")}
        cache = {"XDG_CACHE_HOME": str(self.folder / "cache"), "NO_COLOR": "1"}
        return run_here(words, self.folder, {**kept, **cache})

    def stream(self, *words: str) -> dict[str, Any]:
        done = self.ddops("env", "stream", str(self.source), "b", "--json", "--quiet", *words)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def there(self, *argv: str) -> str:
        """What a program of the environment in use says."""
        line = [str(self.state / "venv" / "bin" / argv[0]), *argv[1:]]
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout

    @property
    def present(self) -> set[str]:
        return {path.name for path in (self.state / "envs").iterdir()}


@pytest.fixture
def desk(tmp_path: Path, made: Path) -> Desk:
    return Desk(tmp_path, made)


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory, made: Path) -> Desk:
    """Streamed once, for tests that change nothing."""
    desk = Desk(tmp_path_factory.mktemp("desk"), made)
    desk.stream()
    return desk


@pytest.fixture
def alone(streamed: Desk) -> Iterator[Desk]:
    """The source is out of reach."""
    home = streamed.source.parent
    away = home.rename(home.with_name("away"))
    yield streamed
    away.rename(home)


def test_scripts_compiled_modules_and_editable_projects_work_without_the_source(
    alone: Desk,
) -> None:
    assert alone.there("greet") == "hello, patched\n"
    ask = "import markupsafe._speedups, near, sys; print(near.HERE, sys.prefix)"
    project, prefix = alone.there("python", "-c", ask).split()
    folder = os.path.realpath(alone.state / "venv")
    assert project == f"{folder}/outside/near/src/near/__init__.py"
    assert prefix == str(alone.state / "venv")
    assert alone.there("python", "-m", "pip", "check") == "No broken requirements found.\n"


def test_nothing_in_it_names_the_source_any_more(streamed: Desk) -> None:
    places = [f"--regexp={streamed.source.parent / name}" for name in ("venv", "near")]
    line = ["grep", "-rlF", "--exclude=*.pyc", *places, str(streamed.state / "envs")]
    found = subprocess.run(line, capture_output=True, text=True, check=False)
    assert found.stdout == ""


def test_what_the_project_keeps_for_itself_does_not_travel(streamed: Desk) -> None:
    assert not (streamed.state / "venv" / "outside" / "near" / ".cache").exists()


def test_bytecode_is_there_and_valid(streamed: Desk) -> None:
    ask = "import greet, sys; print(greet.__cached__)"
    before = Path(streamed.there("python", "-c", ask).strip()).stat().st_mtime_ns
    after = Path(streamed.there("python", "-c", ask).strip()).stat().st_mtime_ns
    assert before == after


def test_a_patch_is_kept_and_told_apart_from_what_was_rewritten(streamed: Desk) -> None:
    shown = json.loads(streamed.ddops("env", "show", str(streamed.state / "venv"), "--json").stdout)
    (patch,) = (one for one in shown["patches"] if one["package"] != "pip")  # it has no script
    assert (patch["package"], patch["change"]) == ("greet", "changed")
    assert patch["path"].endswith("site-packages/greet/__init__.py")
    assert patch["installed"] == venvs.sha256(venvs.GREET)


def test_verify_reads_every_file_and_names_what_has_changed(streamed: Desk) -> None:
    script = streamed.state / "venv" / "bin" / "greet"
    text = script.read_text("utf-8")
    assert "files are what they were" in streamed.ddops("env", "verify", "b").stdout
    script.write_text("#!/bin/sh\n", "utf-8")
    done = streamed.ddops("env", "verify", "b")
    script.write_text(text, "utf-8")
    assert done.returncode == 5
    assert "changed: bin/greet" in done.stderr


def test_a_second_time_nothing_is_to_change_and_a_patch_sends_only_itself(
    desk: Desk, made: Path, tmp_path: Path
) -> None:
    first = desk.stream()
    assert first["changed"]
    assert first["sent"] > 0.95 * first["size"]  # equal files count once
    assert not desk.stream()["changed"]

    desk.source = tmp_path / "patched" / "venv"
    shutil.copytree(made.parent, tmp_path / "patched", symlinks=True)
    (venvs.site(desk.source) / "markupsafe" / "_native.py").write_text("# mended\n", "utf-8")
    second = desk.stream()
    assert second["sent"] < 0.02 * first["size"]
    assert desk.present == {Path(first["path"]).name, Path(second["path"]).name}  # both stay


def test_an_environment_that_does_not_work_there_never_comes_into_use(
    desk: Desk, made: Path, tmp_path: Path
) -> None:
    before = desk.stream()["path"]
    desk.source = tmp_path / "broken" / "venv"
    shutil.copytree(made.parent, tmp_path / "broken", symlinks=True)
    text = "assert '/broken/' in __file__, 'not at home'\n"
    (venvs.site(desk.source) / "greet" / "__init__.py").write_text(text, "utf-8")
    done = desk.ddops("env", "stream", str(desk.source), "b")
    assert done.returncode == 7
    assert "the one before stays" in done.stderr
    assert "`import greet`: AssertionError: not at home" in done.stderr
    assert os.path.realpath(desk.state / "venv") == before


def test_what_fails_at_the_source_too_is_told_and_no_reason_to_refuse(
    desk: Desk, made: Path, tmp_path: Path
) -> None:
    desk.source = tmp_path / "copy" / "venv"
    shutil.copytree(made.parent, tmp_path / "copy", symlinks=True)
    shutil.rmtree(venvs.site(desk.source) / "markupsafe")
    (venvs.site(desk.source) / "greet" / "__init__.py").write_text("import absent\n", "utf-8")
    (note, *_) = desk.stream()["notes"]
    assert note.startswith("as at the source: `import greet`: ModuleNotFoundError")


def test_a_folder_that_ddops_did_not_make_is_not_replaced(desk: Desk) -> None:
    (desk.state / "venv").mkdir(parents=True)
    done = desk.ddops("env", "stream", str(desk.source), "b")
    assert done.returncode == 5
    assert "a `venv` in the state folder that ddops did not make" in done.stderr
    assert "hint: move it away" in done.stderr


def test_what_is_no_environment_is_refused(desk: Desk, tmp_path: Path) -> None:
    done = desk.ddops("env", "stream", str(tmp_path), "b")
    assert done.returncode == 2
    assert "has no `pyvenv.cfg`" in done.stderr


def test_packages_of_the_systems_python_would_stay_behind(desk: Desk, tmp_path: Path) -> None:
    venv = tmp_path / "open"
    line = ["python3", "-m", "venv", "--without-pip", "--system-site-packages", str(venv)]
    subprocess.run(line, check=True)
    done = desk.ddops("env", "stream", str(venv), "b")
    assert done.returncode == 5
    assert "the packages of the system's Python" in done.stderr


def test_a_deployment_that_pins_an_environment_takes_no_other(desk: Desk) -> None:
    desk.inventory(environment={"source": str(desk.source), "identity": "0" * 12})
    done = desk.ddops("plan", "b")
    assert done.returncode == 5
    assert "is not the one that is wanted" in done.stderr
    assert f"wanted {'0' * 12}" in done.stderr


def test_a_pinned_environment_that_is_in_use_needs_no_word_with_its_source(streamed: Desk) -> None:
    used = (streamed.state / "venv").readlink().name
    streamed.inventory(environment={"source": "/gone", "identity": used})
    told = streamed.ddops("plan", "b").stderr
    assert "gone" not in told
    assert f"{streamed.state}/venv/bin/python cannot run" in told  # so the plan went on
