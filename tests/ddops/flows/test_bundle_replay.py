"""A bundle is measured again on this machine, by real processes, and compared with itself."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddops.bundle import bag
from ddops.errors import BundleError, CheckError, ClaimsError
from ddops.flows.bundle import create
from ddops.flows.bundle_verify import unpacked, verify
from tests.ddops.flows.bench_machine import AR, QUICK, BenchMachine, eventually
from tests.ddops.machine import WEIGHTS, Done, run_here

LOOSE = "999"  # whatever else this machine is busy with is no matter here


class Replaying(BenchMachine):
    """A machine that has measured and packed a small matrix."""

    def pack(self) -> None:
        self.matrix(concurrency=[1])
        done = self.bench()
        assert done.returncode == 0, done.stderr
        self.first = create(self.run, self.folder / "kept").archive

    def replay(self, *words: str) -> Done:
        return self.ddops(*self.line, *words)

    @property
    def line(self) -> tuple[str, ...]:
        return ("bundle", "replay", str(self.first), "--box", "stand", "--tolerance", LOOSE)

    @property
    def again(self) -> dict[str, bytes]:
        """Records of the replay by name."""
        found = self.folder.glob("results/replays/*/small-*/*.c*.json")
        return {path.name: path.read_bytes() for path in found}

    def archive(self) -> Path:
        (found,) = self.folder.glob("results/replays/*/bundles/*.tar.zst")
        return found


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replaying]:
    made = Replaying(tmp_path_factory.mktemp("packed"))
    try:
        made.pack()
        yield made
    finally:
        made.close()


@pytest.fixture
def box(packed: Replaying) -> Iterator[Replaying]:
    """As it was when it had packed; its service runs on from test to test."""
    yield packed
    packed.plans()
    packed.model.write_bytes(WEIGHTS)
    shutil.rmtree(packed.folder / "results" / "replays", ignore_errors=True)


def info(archive: Path) -> dict[str, Any]:
    with unpacked(archive) as folder:
        found: dict[str, Any] = json.loads((folder / "data/bundle.json").read_bytes())
    return found


def test_a_replay_is_a_bundle_of_its_own_that_names_the_first_and_bears_it_out(
    box: Replaying,
) -> None:
    done = box.replay("--yes")
    assert done.returncode == 0, done.stderr
    assert "2 cells as stand-small" in done.stdout
    archive = box.archive()
    assert str(archive).endswith(done.stdout.splitlines()[0])
    assert verify(archive).findings == ()
    based = info(archive)["based_on"]
    with unpacked(box.first) as folder:
        pinned = hashlib.sha256((folder / bag.TAG_MANIFEST).read_bytes()).hexdigest()
    assert based == {"name": info(box.first)["name"], "sha256": pinned, "drift": []}
    shown = box.ddops("bundle", "show", str(archive)).stdout
    assert re.search(rf"^replay of +{based['name']} *$", shown, re.MULTILINE)
    assert sorted(box.again) == ["ar.c1.r1.json", "ddtree-b8.c1.r1.json"]
    assert box.budget == 16
    assert box.status()["service"]["state"] == "running"

    line = ("bundle", "verify", str(box.first), "--level")
    held = box.ddops(*line, "L6", "--replay", str(archive), "--tolerance", LOOSE)
    assert held.returncode == 0, held.stderr
    assert "holds: L0, L1, L3, L5, L6" in held.stdout
    here = box.ddops(*line, "L4", "--box", "stand")
    assert here.returncode == 0, here.stderr

    before = archive.read_bytes()
    second = box.replay("--yes")
    assert "measure 0 of 2 cells" in second.stderr
    assert archive.read_bytes() == before


def test_a_dry_run_tells_differences_and_cells_and_measures_nothing(box: Replaying) -> None:
    done = box.replay("--cells", "ddtree-b8.*", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "nothing differs that a number is known to depend on" in done.stdout
    assert "measure 2 of 2 cells" in done.stdout  # with the one it is compared with
    assert not (box.folder / "results" / "replays").exists()


def test_repeated_from_its_own_folder_it_stays_as_it_is(box: Replaying) -> None:
    folder = box.first.with_name(box.first.name.removesuffix(".tar.zst"))
    inventory = str(box.folder / "inventories" / "stand.yaml")
    line = ["bundle", "replay", ".", "--box", inventory, "--dry-run", "--json"]
    done = run_here(line, folder, box.environment)
    assert done.returncode == 0, done.stderr
    assert not Path(json.loads(done.stdout)["folder"]).is_relative_to(folder)


def test_answers_that_are_other_ones_are_named_with_their_own_exit_code(box: Replaying) -> None:
    box.plans(ar={**AR, "word": "other{n}"})
    done = box.replay("--yes", "--cells", "ar.*")
    assert done.returncode == ClaimsError.exit_code
    assert "L6 data/records/ar.c1.r1.json: 4 of 4 answers are other ones: " in done.stderr
    assert box.archive().is_file()


def test_a_replay_far_beyond_the_tolerance_is_told_with_its_numbers(box: Replaying) -> None:
    box.plans(ddtree_b8={**QUICK, "gap": 0.2})
    done = box.replay("--yes", "--tolerance", "1.5")
    assert done.returncode == ClaimsError.exit_code
    assert "L5 data/records/ddtree-b8.c1.*.json: TPOT s was " in done.stderr
    assert "0.40 to 2.50 is asked for" in done.stderr


def test_after_kill_9_the_same_command_goes_on_and_puts_the_box_back(box: Replaying) -> None:
    box.plans(ddtree_b8={**QUICK, "gap": 0.3})
    with box.process(*box.line, "--yes") as process:
        try:
            eventually(lambda: "ar.c1.r1.json" in box.again and box.budget == 8)
        finally:
            process.kill()
    before = box.again
    box.plans()
    done = box.replay("--yes")
    assert done.returncode == 0, done.stderr
    assert f"measure {2 - len(before)} of 2 cells" in done.stderr
    assert {name: data for name, data in box.again.items() if name in before} == before
    assert box.budget == 16


def test_what_cannot_be_repeated_is_refused_with_its_reasons(box: Replaying) -> None:
    box.model.unlink()
    done = box.replay("--yes")
    assert done.returncode == CheckError.exit_code
    assert "box `stand` cannot repeat stand-small-" in done.stderr
    assert str(box.model) in done.stderr
    assert box.again == {}


def test_a_damaged_bundle_is_not_repeated(box: Replaying) -> None:
    content = bytearray(box.first.read_bytes())
    content[len(content) // 2] ^= 1
    broken = box.folder / "broken.tar.zst"
    broken.write_bytes(content)
    done = box.ddops("bundle", "replay", str(broken), "--box", "stand", "--yes")
    assert done.returncode == BundleError.exit_code
    assert box.again == {}
