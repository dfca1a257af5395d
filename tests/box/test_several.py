"""Two real boxes behind SSH, of which one is in trouble."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.box.box import Box, shared_paths
from tests.box.operator import Operator
from tests.box.site import Site
from tests.ddops.machine import Done, run_here


@pytest.fixture
def pair(equipped: Box, operator: Operator) -> Iterator[tuple[Site, Site]]:
    """Boxes `a` and `b`, together group `both`."""
    with Box(share=shared_paths()) as second:
        yield (
            Site(operator, equipped, name="a", groups=("both",)),
            Site(operator, second, name="b", groups=("both",)),
        )


def ddops(site: Site, *words: str) -> Done:
    return run_here(words, site.operator.home, site.environment)


def outcomes(done: Done) -> dict[str, Any]:
    return {one["box"]: one for one in json.loads(done.stdout)}


def test_one_that_dies_and_one_that_is_gone_hide_nothing_of_the_other(
    pair: tuple[Site, Site],
) -> None:
    first, second = pair
    second.box.write("/root/.local/share/ddops/boxes/b/behave.json", json.dumps({"exit": 4}))
    done = ddops(first, "deploy", "both", "--yes", "--json")
    assert done.returncode == 8
    told = outcomes(done)
    assert (told["a"]["exit_code"], told["b"]["exit_code"]) == (0, 8)
    assert told["a"]["result"]["changed"] > 0
    assert "out of memory (exit code 4)" in told["b"]["error"]
    keys = (first.operator.home / "inventories" / "known_hosts").read_text("utf-8")
    assert len(keys.splitlines()) == 2  # both met at the same moment, neither forgotten

    second.box.must("systemctl", "stop", "ssh.socket", "ssh.service")
    done = ddops(first, "status", "a", "b")
    assert done.returncode == 4
    assert "running, ready, stand-in" in done.stdout
    assert f"nothing listens on {second.box.address}:22" in done.stdout
    assert "b | hint: is the box up?" in done.stderr
