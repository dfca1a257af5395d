"""A user without root and without sudo: the service belongs to the user's own systemd."""

from __future__ import annotations

from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.site import SECRET, Site

HOME = "/srv/op"
UNIT = f"{HOME}/.config/systemd/user/ddops-b300.service"
PID = "systemctl --user --machine=op@ show -p MainPID --value ddops-b300"
OTHER_PID = f'for i in $(seq 100); do [ "$({PID})" != "$1" ] && exit 0; sleep 0.1; done; exit 1'


def test_the_users_own_manager_keeps_the_service(equipped: Box, operator: Operator) -> None:
    box = equipped
    box.must("useradd", "--create-home", "--home-dir", HOME, "--shell", "/bin/bash", "op")
    box.must("loginctl", "enable-linger", "op")
    site = Site(operator, box)
    keys = ".ssh/authorized_keys"
    box.must("install", "-D", "-o", "op", f"/root/{keys}", f"{HOME}/{keys}")
    box.must("install", "-o", "op", "-m", "600", "/root/key", f"{HOME}/key")
    box.must("chmod", "711", "/root")  # the tests' interpreter lies below it
    site.inventory(reach={"user": "op"})

    done = site.ddops("deploy", "--yes")
    assert done.returncode == 0, done.stderr
    assert SECRET not in box.must("cat", UNIT)
    assert "nothing to change" in site.ddops("deploy", "--yes").stdout
    first = main_pid(box)
    assert box.must("ps", "-o", "user=", "-p", first) == "op\n"

    box.must("kill", "-9", first)
    box.must("sh", "-c", OTHER_PID, "sh", first)
    assert site.ddops("restart").returncode == 0
    assert site.status()["ready"] is True
    assert site.ddops("stop").returncode == 0
    assert main_pid(box) == "0"


def main_pid(box: Box) -> str:
    return box.must("sh", "-c", PID).strip()
