"""What is private on this machine is found, so that it can be taken out."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from ddops.bundle.redact import redact
from ddops.flows.private import addresses_here, known_here
from ddops.spec.run import Run
from tests.ddops import records

INVENTORY = """\
reach: {via: ssh, host: 203.0.113.40, user: carol}
deployment:
  engine: ddtree
  model: {name: m, weights: {source: "file:/srv/m.gguf"}}
  decoding: {mode: ar}
"""


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run on a box that an inventory of this folder describes."""
    (tmp_path / "inventories").mkdir()
    (tmp_path / "inventories" / "rented.yaml").write_text(INVENTORY)
    monkeypatch.chdir(tmp_path)
    return records.run(records.matrix()).model_copy(update={"box": "rented"})


def test_the_way_to_a_box_is_private(far: Run) -> None:
    said = redact("carol on 203.0.113.40, box rented, version 203.0.113.4", known_here(far)).text
    assert said == "USER on ADDRESS, box rented, version 203.0.113.4"


def test_a_box_without_an_inventory_here_hides_no_more_than_this_machine(
    far: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: "gpu-17.example")
    known = known_here(far.model_copy(update={"box": "gone"}))
    assert known.hosts == ("gpu-17.example",)
    assert {*known.addresses} == {*addresses_here()}


def test_every_machine_knows_itself_by_the_same_name() -> None:
    assert not {"127.0.0.1", "::1", "0.0.0.0"} & {*addresses_here()}
