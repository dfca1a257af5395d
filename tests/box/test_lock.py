"""The lock of a box behind SSH survives a broken link, and its holder not for long."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from paramiko import Channel

from ddops.errors import CheckError, HostError
from ddops.flows.lock import locked
from ddops.flows.site import Site
from ddops.host import remote_lock
from ddops.host.base import Held
from ddops.host.ssh import Ssh
from ddops.spec.command import Put
from ddops.spec.load import load_box
from tests.box.box import Box
from tests.box.operator import Operator

LOCK = "/srv/boxes/b/lock"
PUT = Put(path="/srv/x", text="x", why="")


@pytest.fixture(scope="module")
def shared(bootable: None) -> Iterator[Box]:
    with Box() as box:
        yield box


@pytest.fixture
def two(
    shared: Box, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Ssh, Ssh]]:
    """Two that want one box, and patience short enough for a test."""
    monkeypatch.setattr(remote_lock, "SILENCE_S", 8)
    monkeypatch.setattr(remote_lock, "CUT_S", 4)
    monkeypatch.setattr(remote_lock, "_BEAT_S", 1.0)
    hands = operator.hands(shared), operator.hands(shared)
    yield hands
    for one in hands:
        one.close()
    assert shared.run("pgrep", "-f", "flock").stdout == ""


def is_free(hands: Ssh, text: str = "the other") -> bool:
    try:
        with hands.hold(LOCK, text):
            return True
    except Held:
        return False


def cut_sessions(box: Box) -> None:
    box.must("pkill", "-f", "^sshd: root")


def test_one_holds_it_and_the_other_reads_who(two: tuple[Ssh, Ssh]) -> None:
    one, other = two
    with one.hold(LOCK, "signed by one"):
        with pytest.raises(Held, match="signed by one"), other.hold(LOCK, "the other"):
            pass
        one.apply(PUT)
    assert is_free(other)


def test_cut_connections_give_nobody_else_the_box(shared: Box, two: tuple[Ssh, Ssh]) -> None:
    one, other = two
    with one.hold(LOCK, "signed by one"):
        for _ in range(2):
            cut_sessions(shared)
            until = time.monotonic() + 6  # longer than the lock would stay without its holder
            while time.monotonic() < until:
                assert not is_free(other)
                time.sleep(0.5)
            one.apply(PUT)
    assert is_free(other)


def test_a_link_that_is_down_for_a_while_does_not_either(shared: Box, two: tuple[Ssh, Ssh]) -> None:
    one, other = two
    with one.hold(LOCK, "signed by one"):
        shared.link("down")
        time.sleep(5)
        shared.link("up")
        assert not is_free(other)
        one.apply(PUT)
        time.sleep(4)
        assert not is_free(other)
    assert is_free(other)


def test_a_holder_that_went_silent_loses_it_and_is_stopped(
    shared: Box, two: tuple[Ssh, Ssh]
) -> None:
    one, other = two
    with one.hold(LOCK, "signed by one"):
        lease = one._lease
        assert lease
        lease._new_channel = _unreachable
        cut_sessions(shared)
        began = time.monotonic()
        while not is_free(other):
            assert time.monotonic() < began + 12
            time.sleep(0.3)
        assert time.monotonic() - began > 2
        with other.hold(LOCK, "the other"):
            lease._new_channel = one._channel
            while lease._lost is None:
                time.sleep(0.1)
        with pytest.raises(HostError, match="its lock is no longer ours") as caught:
            one.apply(PUT)
        assert caught.value.detail == "the other"


def _unreachable() -> Channel:
    raise HostError("no way")


HOLDER = """
import sys, time
from pathlib import Path
from ddops.flows.lock import locked
from ddops.flows.site import opened
with opened("b300") as site, locked(site, "deploy"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_killed_holder_of_this_machine_blocks_nobody(
    shared: Box, operator: Operator, two: tuple[Ssh, Ssh]
) -> None:
    """And one that lives is waited for, and named."""
    folder = operator.home / "inventories"
    folder.mkdir(exist_ok=True)
    about = {
        "reach": {"via": "ssh", "host": shared.address, "user": "root"},
        "deployment": load_box("local").deployment.model_dump(mode="json"),
    }
    (folder / "b300.yaml").write_text(json.dumps(about), "utf-8")
    site = Site(two[0], load_box("b300", folder=operator.home))
    argv = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(argv, cwd=operator.home, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(CheckError, match=f"deploy` .process {holder.pid}, since") as caught:
            locked(site, "stop").__enter__()
        assert f"`kill {holder.pid}`" in str(caught.value.hint)
        assert "--lock-wait" in str(caught.value.hint)
        killer = threading.Timer(1.5, holder.kill)
        killer.start()
        began = time.monotonic()
        with locked(site, "stop", wait_s=30):
            assert 1.0 < time.monotonic() - began < 4.0
