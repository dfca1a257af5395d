"""Pulls from a hub and its store with a real aria2c: whatever they do, right files or words."""

from __future__ import annotations

import fcntl
import os
import random
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ddops.errors import WeightsError
from ddops.host import aria2, hub
from ddops.host.local import Local
from tests.ddops.host.pulling import (
    BIG,
    FILES,
    MB,
    World,
    in_python,
    look_around,
    watching,
    without,
    worlds,
)
from tests.ddops.sources import COMMIT, Refusal

pytestmark = pytest.mark.skipif(not shutil.which("aria2c"), reason="aria2c is not installed")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with worlds(tmp_path / "w") as made:
        monkeypatch.setenv("HF_ENDPOINT", made.hub.url)
        yield made


def test_files_come_over_many_connections_with_their_manifests(world: World) -> None:
    world.pull()
    world.assert_there()
    assert world.told[-1] == (2 * len(BIG) + 23, 2 * len(BIG) + 23)
    ranges = {one.range for one in world.store.asked if one.path.startswith("/model-1")}
    assert len(ranges) == 4  # pieces of a megabyte; on a busy machine one is asked for again
    assert world.store.sent < 2 * len(BIG) + 2 * MB  # the first connection asks for all


def test_against_a_limit_for_each_connection_many_are_ten_times_as_fast(world: World) -> None:
    data = BIG * 8
    world.serve({"model-1.safetensors": data}, rate=MB // 4)
    began = time.monotonic()
    url = world.store.sign("/model-1.safetensors")
    one = httpx.get(url, headers={"Range": f"bytes=0-{MB // 4}"})
    alone = len(one.content) / (time.monotonic() - began)
    began = time.monotonic()
    world.pull()
    together = len(data) / (time.monotonic() - began)
    world.assert_there()
    assert together > 10 * alone


def test_an_address_that_runs_out_is_asked_for_again(world: World) -> None:
    world.serve({"model-1.safetensors": BIG}, rate=MB // 2)
    world.store.signed_s = 0.3
    world.store.drops = [300_000] * 8  # by then the address is too old for another connection
    world.pull()
    world.assert_there()
    asked = [line for line in world.hub.asked if "model-1" in line]
    assert len(asked) > 1


def test_an_address_is_replaced_before_it_runs_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is refused is one less, for the rest of the file."""
    monkeypatch.setattr(hub, "MARGIN_S", 0.5)
    world.serve({"model-1.safetensors": BIG}, rate=MB // 2)
    world.store.signed_s = 1.5
    world.pull()
    world.assert_there()
    assert len([line for line in world.hub.asked if "model-1" in line]) > 1
    assert world.store.too_old == 0


def test_a_control_file_that_a_full_disk_cut_short_is_not_the_end(world: World) -> None:
    world.folder.mkdir()
    (world.folder / "model-1.safetensors.part").write_bytes(b"x" * MB)
    (world.folder / "model-1.safetensors.part.aria2").touch()
    world.pull()
    world.assert_there()


def test_two_never_write_to_one_folder(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aria2, "_ENDS_S", 0)
    world.folder.mkdir()
    held = os.open(world.folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(WeightsError, match=r"another download to .* is at work"):
        world.pull()
    os.close(held)
    world.pull()
    world.assert_there()


def test_a_port_that_another_program_has_is_left_to_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aria2, "_ENDS_S", 0)
    monkeypatch.setattr(aria2, "_START_S", 1.0)
    taken = int(world.store.url.rsplit(":", 1)[1])
    ports = iter([taken, *random.sample(aria2.PORTS, 9)])
    monkeypatch.setattr("ddops.host.aria2.secrets.choice", lambda _: next(ports))
    world.pull()
    world.assert_there()


@pytest.mark.slow
def test_a_connection_below_the_floor_is_opened_again(world: World) -> None:
    world.serve({"model-1.safetensors": BIG * 2})
    world.store.crawls = 1
    began = time.monotonic()
    world.pull()
    world.assert_there()
    assert time.monotonic() - began < 40  # it would have taken minutes


def test_a_store_that_refuses_for_a_while_is_asked_again(world: World) -> None:
    world.store.refusals = [403, 503, 429]
    world.pull()
    world.assert_there()


def test_a_hub_that_is_asked_too_often_tells_how_long_to_wait(world: World) -> None:
    limit = {"RateLimit": '"resolvers";r=0;t=1'}
    world.serve({"model-1.safetensors": BIG})
    world.hub.refusals = [Refusal(429, limit)]
    began = time.monotonic()
    world.pull()
    world.assert_there()
    assert time.monotonic() - began >= 1


def test_dropped_connections_lose_nothing(world: World) -> None:
    world.store.drops = [200_000] * 12
    world.pull()
    world.assert_there()


def test_a_flipped_byte_costs_that_file_once_more(world: World) -> None:
    world.store.flips = [123]
    world.pull()
    world.assert_there()
    assert world.store.sent < 3 * len(BIG) + 2 * MB


def test_a_flipped_byte_in_a_small_file_is_noticed_too(world: World) -> None:
    good = world.hub.files["config.json"]
    command = world.command
    world.hub.files["config.json"] = good.replace(b"llama", b"lIama")
    with pytest.raises(WeightsError, match=r"config\.json of org/tiny is not what it should be"):
        Local().apply(command)
    assert not (world.folder / "config.json").exists()


def test_a_file_that_is_always_wrong_gets_no_name(world: World) -> None:
    command = world.command
    world.store.content["/model-1.safetensors"] = BIG[1:] + b"x"
    with pytest.raises(WeightsError, match=r"model-1\.safetensors .* twice: .* with sha256"):
        Local().apply(command)
    assert not list(world.folder.glob("model-1*"))
    world.assert_no_daemon()


def test_a_stalled_connection_is_given_up_and_the_file_comes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aria2, "SILENCE_S", 1.5)
    world.serve({"model-1.safetensors": BIG})
    world.store.stalls = [30.0] * 4
    began = time.monotonic()
    world.pull()
    world.assert_there()
    assert time.monotonic() - began < 15


def test_a_server_that_is_gone_is_an_error_that_says_what_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddops.host.pull.TRIES", 2)
    world.store.refusals = [403] * 1000
    with pytest.raises(WeightsError, match="cannot be fetched") as caught:
        world.pull()
    assert "MB are kept" in str(caught.value.detail)
    world.assert_no_daemon()


def test_the_token_stays_with_the_hub_and_no_secret_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_s3cret")
    world.hub.gated = True
    world.serve(dict(FILES), rate=MB)
    seen: list[str] = []
    confs: list[tuple[int, str]] = []
    with watching(lambda: look_around(world.folder, seen, confs)):
        world.pull()
    world.assert_there()
    assert set(world.hub.authorizations) == {"Bearer hf_s3cret"}
    assert {one.authorization for one in world.store.asked} == {None}
    (conf,) = set(confs)
    assert conf[0] == 0o600
    secret = re.search(r"rpc-secret=(\w+)", conf[1])
    assert secret
    everything = "".join(seen)
    assert "aria2c --conf-path" in everything
    assert secret[1] not in everything
    assert "s3cret" not in everything
    for file in world.folder.rglob("*"):
        if file.is_file():
            assert not re.search(rb"s3cret|s1gned|rpc-secret", file.read_bytes())


def test_the_hubs_own_client_takes_the_folder_as_it_is(world: World) -> None:
    world.pull()
    world.store.asked.clear()
    before = {path: path.stat().st_mtime_ns for path in world.folder.glob("**/*.safetensors")}
    fetched = in_python(
        "from huggingface_hub import snapshot_download; import sys;"
        "print(snapshot_download('org/tiny', revision=sys.argv[1], local_dir=sys.argv[2]))",
        COMMIT,
        str(world.folder),
    )
    assert fetched == str(world.folder)
    assert world.store.asked == []
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_file_that_the_store_does_not_serve_comes_by_the_hubs_own_client(world: World) -> None:
    world.store.refuses_aria2 = True
    world.pull()
    world.assert_there()


def test_without_aria2_the_hubs_own_client_fetches(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(without("aria2c", tmp_path)))
    world.pull()
    world.assert_there()
    assert {one.range for one in world.store.asked} == {None}
