"""`ddops model fetch` when it is killed, interrupted, refused, or the disk is too small."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.ddops.host.pulling import MB, World, without, worlds
from tests.ddops.machine import Done, Machine
from tests.ddops.sources import COMMIT, Refusal

SOURCE = f"hf:org/tiny@{COMMIT}"
DATA = random.Random(8).randbytes(24 * MB)
CONNECTIONS = 16

pytestmark = pytest.mark.skipif(not shutil.which("aria2c"), reason="aria2c is not installed")


class Fetching:
    """The real command, started again whenever it does not run."""

    def __init__(self, machine: Machine, world: World) -> None:
        self.machine, self.world = machine, world
        self.running: subprocess.Popen[str] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        return ("model", "fetch", SOURCE, "--box", "stand", "--to", str(self.world.folder))

    @property
    def env(self) -> dict[str, str]:
        home = str(self.machine.folder / "hf")
        return {"HF_ENDPOINT": self.world.hub.url, "HF_HOME": home, "HF_TOKEN": "hf_s3cret"}

    def here(self, *more: str) -> Done:
        return self.machine.ddops(*self.words, *more, **self.env)

    def start(self) -> subprocess.Popen[str]:
        if self.running is None or self.running.poll() is not None:
            self.running = self.machine.process(*self.words, **self.env)
        return self.running

    def until_it_has_sent(self, total: int) -> None:
        until = time.monotonic() + 60
        while self.world.store.sent < total:
            running = self.start()
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < until
            time.sleep(0.01)

    def daemons(self) -> list[psutil.Process]:
        found = []
        for one in psutil.process_iter(["cmdline", "status"]):
            line = " ".join(one.info["cmdline"] or ())
            if line.startswith("aria2c") and str(self.world.folder) in line:
                found.append(one)
        return found

    def close(self) -> None:
        if self.running and self.running.poll() is None:
            self.running.kill()
            self.running.communicate()


@pytest.fixture
def fetching(machine: Machine) -> Iterator[Fetching]:
    with worlds(machine.folder / "w") as world:
        made = Fetching(machine, world)
        yield made
        made.close()


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_it_goes_on_from_there(fetching: Fetching, kills: int) -> None:
    draw, world = random.Random(kills), fetching.world
    world.serve({"model-1.safetensors": DATA}, rate=MB // 8)
    for number in range(kills):
        running = fetching.start()
        fetching.until_it_has_sent(world.store.sent + draw.randrange(MB))
        if number % 2:
            running.kill()
            running.communicate()
        else:
            for daemon in fetching.daemons():
                with suppress(psutil.NoSuchProcess):
                    daemon.kill()
    world.store.pause_s = 0.0
    _, said = fetching.start().communicate(timeout=60)
    assert fetching.running and fetching.running.returncode == 0, said
    world.assert_there()
    twice = world.store.sent - len(DATA)
    assert twice < kills * CONNECTIONS * MB // 4  # of a piece of 1 MiB that each may lose


def test_ctrl_c_keeps_what_came_and_leaves_no_daemon(fetching: Fetching) -> None:
    world = fetching.world
    world.serve({"model-1.safetensors": DATA}, rate=MB // 8)
    fetching.until_it_has_sent(2 * MB)
    running = fetching.start()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "hint: to continue, `ddops model fetch" in said
    assert fetching.daemons() == []
    assert not (world.folder / ".cache" / "ddops").exists()
    assert "of them are there" in fetching.here("--dry-run").stdout  # and need no room again
    world.store.pause_s = 0.0
    done = fetching.here()
    assert done.returncode == 0, done.stderr
    world.assert_there()
    assert world.store.sent < len(DATA) + CONNECTIONS * MB // 4


def test_the_hubs_own_client_ends_with_whoever_started_it(
    fetching: Fetching, tmp_path: Path
) -> None:
    world = fetching.world
    world.serve({"model-1.safetensors": DATA}, rate=MB // 4)
    path = {"PATH": str(without("aria2c", tmp_path))}
    running = fetching.machine.process(*fetching.words, **fetching.env, **path)
    until = time.monotonic() + 30
    while not world.store.sent and time.monotonic() < until:
        time.sleep(0.02)
    (client,) = psutil.Process(running.pid).children()
    running.kill()
    running.communicate()
    client.wait(timeout=5)  # raises when it goes on
    world.store.pause_s = 0.0
    done = fetching.machine.ddops(*fetching.words, **fetching.env)
    assert done.returncode == 0, done.stderr
    world.assert_there()


@pytest.mark.parametrize(
    ("refusal", "words", "hint"),
    [
        (Refusal(401, {"X-Error-Code": "GatedRepo"}), "no token was shown", "ask for access"),
        (Refusal(403, {"X-Error-Code": "GatedRepo"}), "has no access to it", "ask for access"),
        (Refusal(404, {"X-Error-Code": "RepoNotFound"}), "no such repository", "check the name"),
        (Refusal(404, {"X-Error-Code": "RevisionNotFound"}), "no such revision", "after the `@`"),
        (
            Refusal(401, {"X-Error-Message": "Invalid credentials in Authorization header"}),
            "does not accept the token",
            "set HF_TOKEN to a valid token",
        ),
        (Refusal(403), "the token lacks a right", "read access"),
    ],
)
def test_refusals_are_told_apart(
    fetching: Fetching, refusal: Refusal, words: str, hint: str
) -> None:
    fetching.world.hub.refusals = [refusal]
    done = fetching.here()
    assert done.returncode == 6
    assert words in done.stderr
    assert hint in done.stderr.split("hint:")[1]
    assert "s3cret" not in done.stderr
    assert not fetching.world.folder.exists()


def test_a_gated_repository_is_refused_before_anything_is_written(fetching: Fetching) -> None:
    """Its list is open to everybody, its files are not."""
    fetching.world.hub.closed = True
    done = fetching.here("--dry-run")
    assert done.returncode == 6
    assert "it is gated" in done.stderr
    assert not fetching.world.folder.exists()


def test_a_disk_too_small_is_a_hard_stop_before_the_first_byte(fetching: Fetching) -> None:
    fetching.world.hub.claimed = 10**18
    done = fetching.here()
    assert done.returncode == 6
    assert "not enough disk" in done.stderr
    assert fetching.world.store.asked == []


def test_an_index_that_names_a_shard_nobody_has_is_noticed(fetching: Fetching) -> None:
    index = b'{"weight_map": {"a": "model-1.safetensors", "b": "model-9.safetensors"}}'
    fetching.world.serve({"model-1.safetensors": b"x", "model.safetensors.index.json": index})
    done = fetching.here()
    assert done.returncode == 6
    assert "its index names model-9.safetensors" in done.stderr


def test_files_that_another_tool_brought_are_checked_and_kept(fetching: Fetching) -> None:
    world = fetching.world
    for name, data in world.hub.files.items():
        path = Path(world.folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (world.folder / "model-1.safetensors").write_bytes(b"cut")
    assert fetching.here().returncode == 0
    world.assert_there()
    assert {one.path.split("?")[0] for one in world.store.asked} == {"/model-1.safetensors"}
