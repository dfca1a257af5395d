"""What a hostile program wants to do, and that it cannot: every one of them is really run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ddops.host import sandbox
from ddops.host.sandbox import Limits, Ran
from tests.checkout import ROOT
from tests.ddops.flows.bench_machine import eventually

MISSING = sandbox.missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

FORK_BOMB = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except OSError as refused:
    print("refused after", made)
"""
ESCAPES = """
import os
if os.fork() == 0:
    os.setsid()
    os.close(0)
    if os.fork() == 0:
        os.execv("/usr/bin/sleep", ["sleep", "MARK"])
"""


def ran(program: str, **limits: float) -> Ran:
    return sandbox.run(program, Limits(**limits))  # type: ignore[arg-type]


def test_a_peaceful_program_runs_with_the_standard_library_and_nothing_else() -> None:
    assert ran("import json, math; print(json.dumps(math.comb(4, 2)))") == Ran(0, "6\n")
    assert "No module named 'pydantic'" in ran("import pydantic").output


def test_an_error_is_told_as_python_tells_it() -> None:
    failed = ran("raise ValueError('seven')")
    assert failed.code == 1
    assert failed.output.endswith("ValueError: seven\n")


def test_a_loop_ends_by_its_own_cpu_time() -> None:
    assert ran("while True: pass", cpu_s=1, wall_s=120).code not in (0, None)


def test_who_only_waits_is_ended_by_the_clock() -> None:
    assert ran("import time; time.sleep(600)", wall_s=1).code is None


def test_a_fork_bomb_gets_no_further_than_its_limit() -> None:
    said = ran(FORK_BOMB, wall_s=120)
    assert said.output.startswith("refused after ")
    assert int(said.output.split()[-1]) < Limits.processes


def test_what_leaves_its_session_dies_all_the_same() -> None:
    mark = f"{os.getpid()}00077"
    ran(ESCAPES.replace("MARK", mark))
    eventually(lambda: not [p for p in psutil.process_iter(["cmdline"]) if _has(p, mark)])


def _has(process: psutil.Process, mark: str) -> bool:
    return mark in (process.info["cmdline"] or ())


def test_memory_has_an_end() -> None:
    assert "MemoryError" in ran("bytearray(8 << 30)").output


def test_disk_and_output_have_an_end() -> None:
    full = "f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20))"
    assert ran(full, wall_s=120).output.splitlines()[-1].startswith("OSError")
    assert ran("while True: print('x' * 10_000)", wall_s=120).code not in (0, None)
    files = "import os\nfor n in range(99): open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))"
    assert "No space left" in ran(files).output


def test_open_files_have_an_end() -> None:
    assert "Too many open files" in ran("f = [open('/dev/null') for _ in range(999)]").output


def test_nothing_of_the_users_is_there_to_be_read_or_deleted(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("dear", "utf-8")
    mine.chmod(0o666)
    tmp_path.chmod(0o777)
    for program in (
        f"open({str(mine)!r}).read()",
        f"import os; os.remove({str(mine)!r})",
        f"open({str(mine)!r}, 'w')",
        f"import shutil; shutil.rmtree({str(Path.home())!r})",
        f"import os; os.listdir({str(ROOT)!r})",
        "import shutil; shutil.rmtree('/usr/bin')",
        "open('/new', 'w')",
    ):
        assert ran(program).code == 1, program
    assert mine.read_text("utf-8") == "dear"


def test_no_secret_of_the_environment_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "s3cret")
    assert (
        "s3cret" not in ran("import os; print(os.environ, open('/proc/1/environ').read())").output
    )


def test_there_is_no_network_not_even_to_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        said = ran(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)")
        assert said.code == 1
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert ran("import socket; socket.create_connection(('192.0.2.1', 80), 5)").code == 1


def test_other_processes_cannot_be_seen_or_killed() -> None:
    outside = subprocess.Popen(["/bin/sleep", "600"])
    try:
        assert ran(f"import os; os.kill({outside.pid}, 9)").code == 1
        assert outside.poll() is None
    finally:
        outside.kill()
        outside.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_is_not_root_has_the_same_walls() -> None:
    program = (
        "from ddops.host.sandbox import *; import sys\n"
        "if missing(): sys.exit(missing())\n"
        f'print(run({FORK_BOMB!r}, Limits()).output, run(\'open("/new", "w")\', Limits()).code)'
    )
    plain = ("env", "-i", "PATH=/usr/bin:/bin", f"PYTHONPATH={ROOT}", "/usr/bin/python3", "-B")
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    done = subprocess.run([*nobody, *plain, "-c", program], capture_output=True, text=True, cwd="/")
    if "bubblewrap cannot" in done.stderr or done.returncode == 127:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused after ")
    assert done.stdout.endswith(" 1\n")


def test_without_bubblewrap_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent / "none"))
    assert sandbox.missing() == "bubblewrap is not installed"
