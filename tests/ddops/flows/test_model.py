"""`ddops model`: weights ahead of a deployment, and whether they are what they should be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ddops.host.ranged import Files, serve
from tests.ddops.machine import Done, Machine
from tests.ddops.sources import COMMIT, Hub, serve_hub

SHARD = bytes(range(256)) * 40
INDEX = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors.index.json": json.dumps(INDEX).encode(),
    "model-1.safetensors": SHARD,
    "model-2.safetensors": SHARD[::-1],
}
SOURCE = f"hf:org/tiny@{COMMIT}"
SIZE = sum(map(len, FILES.values()))


class World:
    def __init__(self, machine: Machine, hub: Hub, store: Files) -> None:
        self.machine, self.hub, self.store = machine, hub, store

    @property
    def folder(self) -> Path:
        return self.machine.folder / "w"

    def ddops(self, verb: str, *arguments: str, **env: str) -> Done:
        words = ("model", verb, SOURCE, "--box", "stand", "--to", str(self.folder), *arguments)
        home = str(self.machine.folder / "hf")
        return self.machine.ddops(*words, **{"HF_ENDPOINT": self.hub.url, "HF_HOME": home, **env})

    def must(self, verb: str, *arguments: str, **env: str) -> Done:
        done = self.ddops(verb, *arguments, **env)
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def world(machine: Machine) -> Iterator[World]:
    store = Files({f"/{name}": data for name, data in FILES.items()}, signed_s=60)
    with serve(store), serve_hub(Hub(dict(FILES), sign=store.sign)) as hub:
        yield World(machine, hub, store)


def test_weights_are_fetched_once_and_verified(world: World) -> None:
    (done,) = json.loads(world.must("fetch", "--json").stdout)
    assert (done["root"], done["size"]) == (str(world.folder), SIZE)
    for name, data in FILES.items():
        assert (world.folder / name).read_bytes() == data
    assert "right:" in world.must("verify").stdout
    world.store.asked.clear()
    world.hub.asked.clear()
    assert world.must("fetch").stdout.startswith("nothing to fetch")
    assert world.store.asked == []
    assert world.hub.asked == []


def test_what_another_tool_brought_is_verified_too(world: World) -> None:
    world.folder.mkdir()
    for name, data in FILES.items():
        (world.folder / name).write_bytes(data)
    world.must("verify")
    (world.folder / "model-1.safetensors").write_bytes(SHARD[::-1])
    assert "model-1.safetensors: sha256" in world.ddops("verify").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nonsense",), "`nonsense` is no source of weights"),
        (("file:/m",), "there is nothing to fetch"),
        (("--to", "/w"), "`--to` needs a SOURCE"),
    ],
)
def test_what_cannot_be_fetched_is_said(machine: Machine, words: list[str], said: str) -> None:
    done = machine.ddops("model", "fetch", "--box", "stand", *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_without_a_source_the_inventory_says_what(machine: Machine) -> None:
    done = machine.ddops("model", "fetch", "--box", "stand")
    assert "the inventory names files that are on the box" in done.stdout


def test_a_dry_run_says_which_files_and_how_large(world: World) -> None:
    said = json.loads(world.must("fetch", "--dry-run", "--json").stdout)
    (pull,) = [one for one in said["commands"] if one["kind"] == "pull"]
    assert {file["name"]: file["bytes"] for file in pull["files"]} == {
        name: len(data) for name, data in FILES.items()
    }
    assert pull["bytes"] == SIZE
    assert not world.folder.exists()


def test_faults_are_named_and_only_they_are_fetched_again(world: World) -> None:
    world.must("fetch")
    (world.folder / "model-1.safetensors").write_bytes(SHARD[:-1] + b"x")
    (world.folder / "model-2.safetensors").unlink()
    done = world.ddops("verify")
    assert done.returncode == 6
    assert "model-1.safetensors: sha256" in done.stderr
    assert "model-2.safetensors: not there" in done.stderr
    assert f"hint: `ddops model fetch {SOURCE} --box stand --to {world.folder}`" in done.stderr
    world.store.asked.clear()
    world.must("fetch")
    names = {one.path.split("?")[0] for one in world.store.asked}
    assert names == {"/model-1.safetensors", "/model-2.safetensors"}
    world.must("verify")
