"""The eyes: text of a machine in, values out. The texts are of real machines."""

from __future__ import annotations

import hashlib
import json
import socket
import sys

import pytest

from ddops.engines.ddtree import DDTREE
from ddops.errors import UsageError
from ddops.facts import gpu, health, port, python, service, system
from ddops.facts.look import base_url
from ddops.host.local import Local
from ddops.spec.deployment import Serving
from ddops.spec.observed import Holder, System
from ddops.spec.place import Place
from tests.ddops.seen import SEEN, observed

PLACE = Place(root="/s", box="b", python=sys.executable, engine_python="py", user_units="/u")

MACHINE = """
== uname
Linux 6.8.0-50-generic x86_64

== os
Ubuntu 24.04.1 LTS

== glibc
glibc 2.39

== cores
192

== cpu
processor\t: 0
model name\t: INTEL(R) XEON(R) PLATINUM 8570
flags\t\t: fpu sse4_2 avx2 avx512f avx512_bf16 amx_bf16 amx_tile

== memory
MemTotal:       2113437488 kB
MemAvailable:   2097152000 kB

== disk
/dev/md0  30726627794944 1048576 27000000000000   1% /

== user
ubuntu

== pid1
systemd

== user_manager
yes

== root
yes
"""


def test_a_machine_is_read() -> None:
    assert system.parse(MACHINE) == System(
        os="Ubuntu 24.04.1 LTS",
        kernel="Linux 6.8.0-50-generic",
        glibc="2.39",
        arch="x86_64",
        cpu="INTEL(R) XEON(R) PLATINUM 8570",
        cpu_flags=("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"),
        cores=192,
        memory=2113437488 * 1024,
        memory_available=2097152000 * 1024,
        disk_free=27000000000000,
        user="ubuntu",
        pid1="systemd",
        user_manager=True,
        root=True,
    )


def test_a_bare_machine_is_read_too() -> None:
    bare = MACHINE.replace("\nyes", "").replace("Ubuntu 24.04.1 LTS", "")
    seen = system.parse(bare.replace("glibc 2.39", ""))
    assert (seen.os, seen.user_manager, seen.root) == ("Linux", False, False)
    assert seen.glibc is None


def test_this_machine_is_read_below_a_folder_that_is_not_there_yet() -> None:
    seen = system.parse(Local().run(system.command("/nowhere/at/all")).stdout)
    assert seen.cores >= 1
    assert seen.memory > seen.memory_available > 0
    assert seen.disk_free > 0


def test_gpus_are_read_from_the_drivers_own_table() -> None:
    text = (
        "0, NVIDIA B300 SXM6 AC, 275040, 580.95.05, 10.3, 1100.00\n"
        "1, NVIDIA B300 SXM6 AC, 275040, 580.95.05, 10.3, [N/A]\n"
    )
    first, second = gpu.parse(text)
    assert (first.name, first.memory_mib) == ("NVIDIA B300 SXM6 AC", 275040)
    assert (first.compute_capability, first.power_limit_w) == ("10.3", 1100.0)
    assert second.power_limit_w is None


@pytest.mark.parametrize(
    "text", ["", "NVIDIA-SMI has failed because it couldn't communicate with the driver.\n"]
)
def test_no_gpu_is_normal(text: str) -> None:
    assert gpu.parse(text) == ()


def test_the_engines_python_is_asked_without_loading_torch() -> None:
    result = Local().run(python.command(sys.executable, DDTREE.needed))
    seen = python.parse(result.stdout)
    assert seen.engine
    assert seen.version.startswith("3.")
    assert result.seconds < 1.5


def test_a_free_port_and_a_held_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        held = port.parse(Local().run(port.command(PLACE, number)).stdout, number)
    assert held.holder is not None
    assert held.holder.program
    free = port.parse(Local().run(port.command(PLACE, number)).stdout, number)
    assert free.holder is None


def test_a_port_of_another_user_has_no_name() -> None:
    said = json.dumps({"held": True, "pid": None, "program": None})
    assert port.parse(said, 80).holder == Holder(pid=None, program=None)


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        ({"pid1": "systemd", "root": True}, "systemd"),
        ({"pid1": "systemd", "root": False, "user_manager": True}, "systemd-user"),
        ({"pid1": "tini", "root": True, "user_manager": True}, "systemd-user"),
        ({"pid1": "tini", "root": True, "user_manager": False}, "background"),
        ({"pid1": "systemd", "root": False, "user_manager": False}, "background"),
    ],
)
def test_the_supervisor_is_chosen_by_what_the_machine_has(
    machine: dict[str, object], kind: str
) -> None:
    seen = observed(system=machine).system
    assert service.supervisor(seen).kind == kind
    assert service.supervisor(seen, "background").kind == "background"
    with pytest.raises(UsageError, match="DDOPS_SUPERVISOR=runit"):
        service.supervisor(seen, "runit")


SHOWN = """ActiveState={active}
SubState={sub}
MainPID={pid}
NRestarts={restarts}
ExecMainStatus={status}
ExecMainCode={code}
ExecMainStartTimestamp=@1700000000
"""


@pytest.mark.parametrize(
    ("active", "sub", "pid", "status", "code", "state", "exit_code"),
    [
        ("active", "running", 12, 0, 0, "running", None),
        ("activating", "start", 12, 0, 0, "running", None),
        ("activating", "auto-restart", 0, 1, 1, "starting", 1),
        ("failed", "failed", 0, 3, 1, "failed", 3),
        ("failed", "failed", 0, 9, 2, "failed", -9),
        ("failed", "failed", 0, 11, 3, "failed", -11),
        ("inactive", "dead", 0, 0, 1, "stopped", 0),
        ("inactive", "dead", 0, 0, 0, "stopped", None),
    ],
)
def test_systemds_words_for_a_service(
    active: str, sub: str, pid: int, status: int, code: int, state: str, exit_code: int | None
) -> None:
    text = SHOWN.format(active=active, sub=sub, pid=pid, restarts=2, status=status, code=code)
    machine = {"pid1": "systemd", "root": True, "user": "alice"}
    by = service.supervisor(observed(system=machine).system)
    seen = service.parse(text, by, unit=b"u", env=None, now=1700000090.0)
    assert (seen.state, seen.exit_code, seen.restarts) == (state, exit_code, 2)
    assert seen.pid == (pid or None)
    assert seen.uptime_s == (90.0 if pid else None)
    assert seen.sudo
    assert seen.unit_sha256 == hashlib.sha256(b"u").hexdigest()


def test_a_service_without_a_unit_is_absent() -> None:
    text = SHOWN.format(active="inactive", sub="dead", pid=0, restarts=0, status=0, code=0)
    machine = {"pid1": "systemd", "root": True, "user": "root"}
    by = service.supervisor(observed(system=machine).system)
    seen = service.parse(text, by, unit=None, env=None)
    assert (seen.state, seen.sudo) == ("absent", False)


def test_nothing_listens_is_not_alive() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
    seen = health.look(f"http://127.0.0.1:{number}", None, DDTREE)
    assert (seen.alive, seen.ready, seen.status) == (False, False, "nothing answers")


def test_a_wildcard_address_is_reached_by_loopback() -> None:
    assert base_url(Serving(address="0.0.0.0", port=80, api_key_file="/k")) == "http://127.0.0.1:80"
    assert base_url(Serving(address="::1", port=80)) == "http://[::1]:80"
    assert SEEN["port"]["port"] == 8421
