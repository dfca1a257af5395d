"""A bundle of a box behind SSH holds what the box said, what it ran, and nothing that names it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import bagit
import yaml

from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.rootfs import key
from tests.box.site import HOME, SECRET, Site
from tests.ddops.flows.bench_machine import AR, QUICK
from tests.ddops.flows.bench_machine import STANDIN as MOCK
from tests.ddops.machine import run_here

CELLS = ("ar.c1.r1", "ddtree-b8.c1.r1")
MATRIX = {
    "name": "small",
    "variants": [
        {"name": "ar", "mode": "ar"},
        {"name": "ddtree-b8", "mode": "ddtree", "budget": 8},
    ],
    "concurrency": [1],
    "repeats": 1,
    "load": {"requests": 3, "warmup": 1, "max_tokens": 13},
    "timeout_s": 20,
}


def test_a_bundle_of_a_far_box_is_whole_names_nobody_and_is_repeated(
    equipped: Box, operator: Operator, elsewhere: Path
) -> None:
    site = Site(operator, equipped, MOCK)
    site.inventory(ready_timeout_s=60)
    equipped.write(f"{HOME}/plans.json", json.dumps({"ar": AR, "ddtree-b8": QUICK}))
    (operator.home / "small.yaml").write_text(yaml.safe_dump(MATRIX), "utf-8")
    site.deployed()
    done = site.ddops("bench", "--matrix", "small.yaml", "--yes")
    assert done.returncode == 0, done.stderr

    made = run_here(["bundle", "create"], operator.home, site.environment)
    assert made.returncode == 0, made.stderr
    folder = operator.home / made.stdout.strip().removesuffix(".tar.zst")
    data = folder / "data"
    bagit.Bag(str(folder)).validate()
    for name in CELLS:
        assert (data / f"records/{name}.json").is_file()
        assert (data / f"logs/{name}.log").is_file()
    assert "Starting" in (data / "logs/ar.start.log").read_text("utf-8")
    environment = {path.name for path in (data / "environment").iterdir()}
    assert environment >= {"pylock.toml", "requirements.txt", "sbom.cdx.json"}
    assert "ExecStart=" in (data / "units/ar.loaded").read_text("utf-8")
    assert "LoadState=loaded" in (data / "units/ar.loaded").read_text("utf-8")
    said = json.loads((data / "box-facts.raw.json").read_text("utf-8"))
    assert any("Debian GNU/Linux" in each["stdout"] for each in said)
    crate = json.loads((data / "ro-crate-metadata.json").read_text("utf-8"))["@graph"]
    results = next(each["result"] for each in crate if each["@id"] == f"#{CELLS[0]}")
    assert {"@id": f"logs/{CELLS[0]}.log"} in results
    weights = (data / "weights/manifest-sha256.txt").read_text("utf-8")
    assert weights.endswith("  data/weights/model/model.gguf\n")
    _names_nobody(folder, equipped)
    archive = folder.with_name(f"{folder.name}.tar.zst")
    _verifies(archive, operator, elsewhere)
    _is_repeated(archive, site)


def _verifies(archive: Path, operator: Operator, elsewhere: Path) -> None:
    """Signed, on a machine with the wheel alone: L0 to L3."""
    own = key()
    trusted = operator.home / "signers"
    trusted.write_text(f"alice@example.org {own.with_suffix('.pub').read_text()}", "utf-8")
    signing = [str(elsewhere / "ddops"), "bundle", "sign", str(archive), "--key", str(own)]
    checking = [str(elsewhere / "ddops"), "bundle", "verify", str(archive), "--signers"]
    alone = {"PATH": "/usr/bin:/bin", "HOME": str(operator.home)}
    for line in (signing, [*checking, str(trusted)]):
        ran = subprocess.run(line, env=alone, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    assert "signed by alice@example.org" in ran.stdout
    assert "holds: L0, L1, L2, L3" in ran.stdout


def _is_repeated(archive: Path, site: Site) -> None:
    """On the box it came from, which then serves again what it served."""
    words = ["--box", site.name, "--cells", "ar.c1.r1", "--tolerance", "999"]
    again = ["bundle", "replay", str(archive), "--yes", *words]
    done = run_here(again, site.operator.home, site.environment)
    assert done.returncode == 0, done.stderr
    assert "nothing differs that a number is known to depend on" in done.stderr
    assert " as b300-small-" in done.stdout
    assert (site.status()["ready"], site.status()["drift"]) == (True, [])


def _names_nobody(folder: Path, box: Box) -> None:
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert SECRET.encode() not in everything
    assert box.address.encode() not in everything
    assert box.name.encode() not in everything
    listed = json.loads((folder / "data/redactions.json").read_text("utf-8"))
    assert not any(box.address in json.dumps(each) for each in listed)
