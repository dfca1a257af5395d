"""`ddops init` of a box behind SSH: looked at with nothing but a shell, its key recorded."""

from __future__ import annotations

from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.site import Site
from tests.ddops.machine import run_here


def test_a_live_box_gets_an_inventory_that_reaches_it_again(box: Box, operator: Operator) -> None:
    site = Site(operator, box)
    words = ["init", f"root@{box.address}", "--name", "fresh"]
    done = run_here(words, operator.home, site.environment)
    assert done.returncode == 0, done.stderr
    assert "first contact with" in done.stderr
    written = (operator.home / "inventories" / "fresh.yaml").read_text("utf-8")
    assert f"  host: {box.address}" in written
    assert "# no GPU answers" in written
    again = run_here(["inspect", "fresh"], operator.home, site.environment)
    assert "in the inventory" in again.stderr  # the interpreter is still to be named
    assert again.returncode == 4
