"""The test box itself: what the tests beside this one may rely on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.box.box import Box
from tests.box.rootfs import rootfs
from tests.checkout import ROOT


def test_systemd_is_process_1_and_nothing_failed(box: Box) -> None:
    assert box.must("cat", "/proc/1/comm") == "systemd\n"
    assert box.must("systemctl", "is-system-running", "--wait") == "running\n"
    assert box.must("systemctl", "--failed", "--quiet", "--no-legend") == ""


def test_a_box_is_up_within_a_few_seconds_and_leaves_nothing_behind() -> None:
    rootfs()
    before, began = Path("/proc/mounts").read_text("utf-8"), time.monotonic()
    with Box() as box:
        assert time.monotonic() - began < 5.0
        name = box.name
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    processes = subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout
    assert name not in links + processes
    assert Path("/proc/mounts").read_text("utf-8") == before
    assert list(Path("/sys/fs/cgroup").glob(f"**/{name}")) == []


def test_a_killed_test_run_takes_its_boxes_with_it() -> None:
    script = (
        "from tests.box.box import Box; import time\n"
        "with Box() as box:\n    print(box.name, flush=True)\n    time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", script]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        left = Box(name=run.stdout.readline().strip())
        cable = Path(f"/sys/class/net/ve-{left.name}")
        assert cable.exists()
        run.kill()
    until = time.monotonic() + 10
    while cable.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    left.kill()  # the empty control groups are all that is left


def test_it_reaches_this_machine_and_nothing_else(box: Box) -> None:
    assert box.must("ip", "route") == (
        f"{box.gateway.rsplit('.', 1)[0]}.{int(box.gateway.rsplit('.', 1)[1]) - 1}/30 dev host0"
        f" proto kernel scope link src {box.address} \n"
    )


def test_what_one_box_writes_no_other_sees(box: Box) -> None:
    box.write("/etc/mark", "mine")
    with Box() as other:
        assert other.run("cat", "/etc/mark").returncode == 1
    assert not (rootfs() / "etc/mark").exists()


def test_the_checkout_and_its_python_work_in_it_and_cannot_be_changed(equipped: Box) -> None:
    said = equipped.must(sys.executable, "-m", "ddops", "--version")
    assert said.startswith("ddops ")
    tried = equipped.run("touch", f"{Path(__file__)}")
    assert "Read-only file system" in tried.stderr


def test_it_reboots_as_a_machine_does(box: Box) -> None:
    box.write("/etc/mark", "kept")
    old = box.root
    box.run("systemctl", "reboot")
    until = time.monotonic() + 20
    while old.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    box.wait_for_ssh()
    assert box.must("cat", "/etc/mark") == "kept"
    assert box.must("systemctl", "is-system-running", "--wait") == "running\n"
    boots = box.must("journalctl", "--list-boots", "--quiet").splitlines()
    assert len(boots) == 2
