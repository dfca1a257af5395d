"""All that a bench left lies in the bundle, and where and how it is packed changes no byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import bagit
import pytest

from ddops.flows.bundle import create
from ddops.flows.bundle_verify import verify
from ddops.spec.bundle import WeightsPart
from ddops.spec.environment import Manifest
from tests.ddops import records
from tests.ddops.environments import manifest

PARTS = [
    WeightsPart(
        role="model",
        path="x/1.safetensors",
        url="https://example.org/x/1.safetensors",
        sha256="a" * 64,
        size=9,
    ),
    WeightsPart(role="model", path="config.json", url=None, sha256="b" * 64, size=2),
    WeightsPart(role="drafter", path="d.gguf", url="https://example.org/d", sha256=None, size=7),
]


def left(folder: Path) -> Path:
    """A run with all that `ddops bench` keeps beside its records."""
    run = records.written(folder)
    files = {
        "box/facts.json": json.dumps([{"argv": ["uname"], "stdout": "Linux alice@10.0.0.7:22"}]),
        "box/weights.json": json.dumps([part.model_dump() for part in PARTS]),
        "box/units/ar.loaded": "[Service]\nExecStart=/home/alice/serve\n",
        "logs/ar.c1.r1.log": "served from 10.0.0.7:5123\n" * 2,
        "logs/ar.start.log": "ready\n",
        "telemetry/ar.c1.r1.jsonl": '{"t":1.0}\n{"t":1.1}\n',
    }
    for name, text in files.items():
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create(left(tmp_path_factory.mktemp("left") / "results")).folder


def test_what_a_bench_kept_is_packed_without_what_is_private(whole: Path) -> None:
    data = whole / "data"
    assert verify(whole).findings == ()
    assert "alice@ADDRESS:22" in (data / "box-facts.raw.json").read_text()
    assert (data / "units/ar.loaded").read_text().endswith("ExecStart=/home/USER/serve\n")
    assert (data / "logs/ar.c1.r1.log").read_text() == "served from ADDRESS:5123\n" * 2
    assert (data / "logs/ar.start.log").read_text() == "ready\n"
    assert (data / "telemetry/ar.c1.r1.jsonl").read_text() == '{"t":1.0}\n{"t":1.1}\n'
    listed = json.loads((data / "redactions.json").read_text())
    assert {"file": "logs/ar.c1.r1.log", "kind": "address", "count": 2} in listed
    assert "10.0.0.7" not in json.dumps(listed)


def test_a_streamed_environment_travels_with_its_patches(tmp_path: Path) -> None:
    run = left(tmp_path / "results")
    patch = {"package": "torch", "path": "lib/a.py", "change": "changed"}
    patched = manifest(patches=[{**patch, "installed": "a" * 64, "found": "b" * 64}])
    (run / "box/environment.json").write_text(patched.model_dump_json())
    data = create(run).folder / "data/environment"
    assert Manifest.model_validate_json((data / "manifest.json").read_bytes()) == patched
    assert json.loads((data / "patches.json").read_text())[0]["path"] == "lib/a.py"


def test_weights_are_listed_and_the_bag_is_whole_without_them(whole: Path) -> None:
    listed = (whole / "data/weights/fetch.txt").read_text()
    assert listed.splitlines() == [
        "https://example.org/d 7 data/weights/drafter/d.gguf",
        "https://example.org/x/1.safetensors 9 data/weights/model/x/1.safetensors",
    ]
    assert (whole / "data/weights/manifest-sha256.txt").read_text().splitlines() == [
        f"{'b' * 64}  data/weights/model/config.json",
        f"{'a' * 64}  data/weights/model/x/1.safetensors",
    ]
    bagit.Bag(str(whole)).validate()


def test_a_cells_log_and_samples_are_among_its_results(whole: Path) -> None:
    graph = json.loads((whole / "data/ro-crate-metadata.json").read_text())["@graph"]
    action = next(entity for entity in graph if entity["@id"] == "#ar.c1.r1")
    assert [each["@id"] for each in action["result"]] == [
        "records/ar.c1.r1.json",
        "logs/ar.c1.r1.log",
        "telemetry/ar.c1.r1.jsonl",
    ]


def test_readme_names_one_line_that_repeats_it(whole: Path) -> None:
    assert "\n    ddops bundle replay . --box BOX\n" in (whole / "README.md").read_text()


def test_no_setting_of_a_process_and_no_time_of_a_file_changes_a_byte(tmp_path: Path) -> None:
    settings = (
        (0o077, {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C"}),
        (0o002, {"PYTHONHASHSEED": "2", "TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "0"}),
    )
    packing = []
    for number, (umask, setting) in enumerate(settings):
        run = left(tmp_path / str(number))
        for path in run.rglob("*"):
            os.utime(path, (number, number))
        line = [sys.executable, "-m", "ddops", "bundle", "create", str(run), "-q"]
        environment = {**os.environ, **setting}
        packing.append(
            subprocess.Popen(line, env=environment, umask=umask, stdout=subprocess.PIPE, text=True)
        )
    packed = [Path(each.communicate()[0].strip()) for each in packing]
    one, other = (hashlib.sha256(path.read_bytes()).hexdigest() for path in packed)
    assert one == other


def test_what_a_killed_packer_left_is_taken_away(tmp_path: Path) -> None:
    run = left(tmp_path / "results")
    out = tmp_path / "results" / "bundles"
    (out / ".packing-dead" / "half").mkdir(parents=True)
    made = create(run)
    assert {*out.iterdir()} == {made.archive, made.folder}


def test_two_may_pack_at_once(tmp_path: Path) -> None:
    run = left(tmp_path / "results")
    line = [sys.executable, "-m", "ddops", "bundle", "create", str(run), "-q"]
    both = [subprocess.Popen(line, stdout=subprocess.PIPE) for _ in range(2)]
    told = {each.communicate()[0] for each in both}
    assert [each.returncode for each in both] == [0, 0]
    packed = Path(told.pop().decode().strip())
    assert not told
    assert verify(packed).findings == ()
    assert len([*packed.parent.iterdir()]) == 2
