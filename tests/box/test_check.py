"""`ddops check` of a box on which nothing of ours is: a shell is enough."""

from __future__ import annotations

import json

import yaml

from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.site import Site


def test_a_bare_box_gets_a_verdict_on_every_subject(box: Box, operator: Operator) -> None:
    site = Site(operator, box)
    box.must("rm", "/srv/python")
    box.write("/etc/systemd/system/broken.service", "[Service]\nExecStart=/bin/false\n")
    box.run("systemctl", "start", "--wait", "broken")
    done = site.ddops("check", "--json")
    assert done.returncode == 5
    verdicts = {one["subject"]: one for one in json.loads(done.stdout)}
    assert verdicts["Python"]["said"] == "there is no /srv/python"
    assert verdicts["supervisor"]["said"] == "systemd"
    assert verdicts["clock"]["state"] != "fail"
    assert verdicts["services"]["said"] == "failed: broken"
    failed = {name for name, one in verdicts.items() if one["state"] == "fail"}
    assert failed == {"Python"}


def test_a_user_without_sudo_is_warned_with_the_line_for_sudoers(
    box: Box, operator: Operator
) -> None:
    site = Site(operator, box)
    box.must("useradd", "-m", "alice")
    keys = box.must("cat", "/root/.ssh/authorized_keys")
    box.write("/home/alice/.ssh/authorized_keys", keys)
    path = operator.home / "inventories" / "b300.yaml"
    inventory = yaml.safe_load(path.read_text("utf-8"))
    inventory["reach"]["user"] = "alice"
    path.write_text(yaml.safe_dump(inventory), "utf-8")
    verdicts = json.loads(site.ddops("check", "--json").stdout)
    rights = next(one for one in verdicts if one["subject"] == "rights")
    assert rights["state"] == "warn"
    assert "alice ALL=(ALL) NOPASSWD: ALL" in rights["fix"]
