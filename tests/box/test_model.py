"""Weights of a hub on a bare box behind SSH: this machine asks and drives, the box downloads."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ddops.errors import WeightsError
from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.site import Site
from tests.checkout import ROOT
from tests.ddops.host.pulling import BIG, FILES, MB, World, watching, worlds
from tests.ddops.machine import Done, run_here
from tests.ddops.sources import COMMIT

SOURCE = f"hf:org/tiny@{COMMIT}"
WHERE = "/srv/w"
TOKEN = "hf_s3cret"


@dataclass
class Fetching:
    site: Site
    world: World

    def ddops(self, verb: str, *more: str) -> Done:
        words = ("model", verb, SOURCE, "--box", "b300", "--to", WHERE, *more)
        hub = {"HF_ENDPOINT": self.world.hub.url, "HF_TOKEN": TOKEN}
        hub["HF_HOME"] = str(self.site.operator.home / "hf")
        return run_here(words, self.site.operator.home, {**self.site.environment, **hub})

    def must(self, verb: str, *more: str) -> Done:
        done = self.ddops(verb, *more)
        assert done.returncode == 0, done.stderr
        return done

    def assert_there(self) -> None:
        box = self.site.box
        for name, data in self.world.hub.files.items():
            assert (box.root / WHERE[1:] / name).read_bytes() == data
        assert box.must("sh", "-c", f"find {WHERE} -name '*.part*' -o -name ddops") == ""
        assert box.run("pgrep", "-x", "aria2c").returncode == 1


@pytest.fixture
def fetching(box: Box, operator: Operator) -> Iterator[Fetching]:
    with worlds(Path(WHERE), box.gateway) as world:
        yield Fetching(Site(operator, box), world)


def test_a_bare_box_downloads_over_many_connections_and_never_sees_the_token(
    fetching: Fetching,
) -> None:
    world, box = fetching.world, fetching.site.box
    world.hub.gated = True
    world.serve({**FILES, "model-1.safetensors": BIG * 2}, rate=MB)
    seen: list[str] = []
    with watching(lambda: seen.append(box.must("ps", "axww", "-o", "args"))):
        fetching.must("fetch")
    fetching.assert_there()
    assert "aria2c --conf-path" in "".join(seen)
    assert "s3cret" not in "".join(seen)
    assert {one.authorization for one in world.store.asked} == {None}
    assert "right: /srv/w, 3 files" in fetching.must("verify").stdout
    world.store.asked.clear()
    assert "nothing to fetch" in fetching.must("fetch").stdout
    assert world.store.asked == []


def test_a_broken_link_costs_no_more_than_a_second_of_work(fetching: Fetching) -> None:
    world, box = fetching.world, fetching.site.box
    world.serve({"model-1.safetensors": BIG * 2}, rate=MB // 4)
    cut = threading.Thread(target=_cut, args=(box, world, 2 * MB))
    cut.start()
    fetching.must("fetch")  # a new connection, a new aria2c, which goes on
    cut.join()
    fetching.assert_there()
    assert world.store.sent < len(BIG) * 2 + 4 * MB


def test_a_disk_that_fills_up_meanwhile_is_said_and_the_next_run_finishes(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    box, world = fetching.site.box, fetching.world
    monkeypatch.setenv("HF_ENDPOINT", world.hub.url)
    monkeypatch.setenv("HF_HOME", str(fetching.site.operator.home / "hf"))
    world.serve({"model-1.safetensors": BIG * 2})
    box.must("sh", "-c", f"mkdir {WHERE} && mount -t tmpfs -o size=5m full {WHERE}")
    hands = fetching.site.operator.hands(box)
    with pytest.raises(WeightsError, match=r"the disk is full: .* MB are free") as caught:
        hands.apply(world.command)
    assert "free some space" in str(caught.value.hint)
    box.must("mount", "-o", "remount,size=50m", WHERE)
    hands.apply(world.command)
    hands.close()
    fetching.assert_there()


def test_a_box_with_neither_aria2_nor_python_says_what_to_install(fetching: Fetching) -> None:
    fetching.site.box.must("rm", "/usr/bin/aria2c", "/srv/python")
    done = fetching.ddops("fetch")
    assert done.returncode == 6
    assert "aria2 is not installed there" in done.stderr
    assert "hint: `apt-get install aria2` on the box" in done.stderr


@pytest.fixture
def first(fetching: Fetching) -> Path:
    """The folder of another box that has the weights: this machine, as the box's sshd sees it."""
    folder, project = fetching.site.operator.home / "first", fetching.site.operator.home
    shutil.copy(ROOT / "inventories" / "local.yaml", project / "inventories" / "first.yaml")
    words = ("model", "fetch", SOURCE, "--box", "first", "--to", str(folder))
    own = {"HF_ENDPOINT": fetching.world.hub.url, "DDOPS_HOME": str(project / "state")}
    assert run_here(words, project, {**fetching.site.environment, **own}).returncode == 0
    fetching.world.store.asked.clear()
    return folder


def test_another_box_copies_from_the_first(fetching: Fetching, first: Path) -> None:
    done = fetching.must("fetch", "--from", f"first:{first}")
    fetching.assert_there()
    assert "warning" not in done.stderr
    assert fetching.world.store.asked == []
    lines = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    assert [line for line in lines if line.endswith(f" {first}")] == []


def test_what_the_first_box_has_damaged_comes_from_the_hub(fetching: Fetching, first: Path) -> None:
    (first / "model-1.safetensors").write_bytes(BIG[1:] + b"x")
    fetching.must("fetch", "--from", f"first:{first}")
    fetching.assert_there()
    names = {one.path.split("?")[0] for one in fetching.world.store.asked}
    assert names == {"/model-1.safetensors"}


def test_a_first_box_that_has_nothing_is_no_obstacle(fetching: Fetching, first: Path) -> None:
    done = fetching.must("fetch", "--from", "first:/nowhere")
    fetching.assert_there()
    assert "box `first` has nothing of it in /nowhere: all comes from the hub" in done.stderr


def _cut(box: Box, world: World, after: int) -> None:
    """As when the cable is pulled: the sessions are gone, nobody says goodbye."""
    until = time.monotonic() + 30
    while world.store.sent < after and time.monotonic() < until:
        time.sleep(0.01)
    box.run("pkill", "-KILL", "-f", "^sshd: root")
