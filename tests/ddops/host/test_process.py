"""A process is known by its pid and its start, as psutil knows them too."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from ddops.host.process import Process


def test_it_starts_when_psutil_says() -> None:
    own = Process.of(os.getpid())
    assert own.created == pytest.approx(psutil.Process().create_time(), abs=0.1)
    assert own.alive
    handle = own.handle()
    assert handle is not None
    assert handle.pid == own.pid
    assert Process.load(own.dump()) == own


def test_a_pid_that_is_in_use_again_is_another_process() -> None:
    earlier = Process(os.getpid(), Process.of(os.getpid()).created - 60)
    assert not earlier.alive
    assert earlier.handle() is None


@pytest.mark.parametrize("platform", ["linux", "elsewhere"])
def test_one_that_waits_to_be_reaped_has_ended(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", name], stdin=subprocess.PIPE) as child:
        monkeypatch.setattr(sys, "platform", platform)
        known = Process.of(child.pid)
        assert known.alive
        child.kill()
        until = time.monotonic() + 10
        while known.alive:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
        monkeypatch.undo()
    assert known.handle() is None
    with pytest.raises(ProcessLookupError):
        Process.of(child.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="a name is set in /proc")
def test_no_name_hides_the_start() -> None:
    rename = "open('/proc/self/comm', 'w').write(') Z 1 ('); input()"
    line = [sys.executable, "-c", rename]
    with subprocess.Popen(line, stdin=subprocess.PIPE) as child:
        until = time.monotonic() + 10
        while psutil.Process(child.pid).name() != ") Z 1 (":
            assert time.monotonic() < until
            time.sleep(0.01)
        assert Process.of(child.pid).alive
        child.communicate(b"\n")
