"""What each level of a check finds, and which bundles this ddops reads."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddops.bundle import archive, bag
from ddops.bundle.recheck import open_bundle
from ddops.cli.app import main
from ddops.errors import BundleError, CheckError, ClaimsError, UsageError
from ddops.flows.bundle import create, show
from ddops.flows.bundle_verify import unpacked, verify
from ddops.flows.extract import extract
from ddops.spec.bundle import BUNDLE_SCHEMA_VERSION
from ddops.spec.level import LEVELS, Level
from tests.checkout import ROOT
from tests.ddops import records
from tests.ddops.machine import Machine

GOLDEN = ROOT / "tests/ddops/bundle/golden" / f"schema-{BUNDLE_SCHEMA_VERSION - 1}.tar.zst"
RECORD = "data/records/ar.c1.r1.json"


def rebagged(folder: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Change the payload and make every hash right again."""
    data = folder / "data"
    payload = {
        p.relative_to(data).as_posix(): p.read_bytes() for p in data.rglob("*") if p.is_file()
    }
    change(payload)
    shutil.rmtree(folder)
    for name, content in bag.bagged(payload, b"# again\n", {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def edited(folder: Path, name: str, change: Callable[[Any], None]) -> Path:
    def edit(payload: dict[str, bytes]) -> None:
        value = json.loads(payload[name])
        change(value)
        payload[name] = json.dumps(value).encode()

    return rebagged(folder, edit)


def test_an_untouched_bundle_holds_at_every_level_that_needs_nothing_else(bundle: Path) -> None:
    assert verify(bundle, level="L0").levels == {"L0": "holds"}
    assert verify(bundle, level="L1").levels == {"L0": "holds", "L1": "holds"}
    unsigned = {"L0": "holds", "L1": "holds", "L2": "open", "L3": "holds"}
    assert verify(bundle).levels == verify(bundle, level="L3").levels == unsigned


def test_nothing_is_derived_again_below_the_numbers(bundle: Path) -> None:
    assert verify(bundle, level="L1").derived == 0
    assert verify(bundle, level="L3").derived == 7


@pytest.mark.parametrize(
    ("first", "break_it", "said"),
    [
        ("L0", lambda folder: (folder / RECORD).unlink(), f"{RECORD}: is missing"),
        (
            "L0",
            lambda folder: edited(folder, "records/ar.c1.r1.json", lambda r: r.update(box=7)),
            f"{RECORD}: box: ",
        ),
        (
            "L1",
            lambda folder: (folder / "README.md").write_text("# other\n"),
            "README.md: was changed",
        ),
        ("L2", lambda folder: None, "signature.dsse.json: is missing: nobody signed"),
        (
            "L3",
            lambda folder: edited(
                folder, "records/ar.c1.r1.json", lambda r: r["metrics"].update(completed=7)
            ),
            f"{RECORD}: metrics.completed is 7, its traces give 6",
        ),
    ],
)
def test_a_fault_is_found_from_its_level_on_and_not_before(
    copy: Path, first: Level, break_it: Callable[[Path], object], said: str
) -> None:
    break_it(copy)
    for level in LEVELS[: LEVELS.index(first)]:
        assert level == "L2" or verify(copy, level=level).findings == ()
    found = verify(copy, level=first)
    assert any(str(finding).startswith(said) for finding in found.findings)
    assert found.levels[first] == "fails"


def test_a_bundle_of_the_schema_before_still_verifies_and_reads(tmp_path: Path) -> None:
    with unpacked(GOLDEN) as folder:
        opened = open_bundle(folder)
    assert opened.info is not None
    assert opened.info.schema_version == BUNDLE_SCHEMA_VERSION - 1
    assert (verify(GOLDEN).findings, verify(GOLDEN).derived) == ((), 7)
    assert dict(show(GOLDEN).tally) == {"ok": 6, "failed": 1, "invalid": 1}
    assert extract(GOLDEN, tmp_path).changed


def test_a_newer_schema_is_refused_with_what_to_install_whatever_it_holds(copy: Path) -> None:
    def later(info: Any) -> None:
        info.update(schema_version=BUNDLE_SCHEMA_VERSION + 1, ddops_version="7.1", colour="red")

    edited(copy, "bundle.json", later)
    (copy / "a-file-of-the-future").touch()
    for look in (verify, show):
        with pytest.raises(
            BundleError, match=f"schema version {BUNDLE_SCHEMA_VERSION + 1}"
        ) as told:
            look(copy)
        assert "ddops>=7.1" in (told.value.hint or "")


def test_an_archive_is_checked_as_its_folder_is(copy: Path, tmp_path: Path) -> None:
    edited(copy, "records/ar.c1.r1.json", lambda r: r["metrics"].update(completed=7))
    packed = tmp_path / "packed.tar.zst"
    files = {p.relative_to(copy).as_posix(): p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    with packed.open("wb") as target:
        archive.pack(files, copy.name, target)
    assert verify(packed).levels == {"L0": "holds", "L1": "holds", "L2": "open", "L3": "fails"}


def pinned(folder: Path) -> str:
    return hashlib.sha256((folder / bag.TAG_MANIFEST).read_bytes()).hexdigest()


@pytest.fixture
def replay(bundle: Path, tmp_path: Path) -> Path:
    """A bundle of another run that says it repeats `bundle`; it gave the same numbers."""
    run = records.written(tmp_path / "again" / "results")
    noted = json.loads((run / "run.json").read_text())
    noted["based_on"] = {"name": bundle.name, "sha256": pinned(bundle), "drift": []}
    (run / "run.json").write_text(json.dumps(noted))
    return create(run).folder


def test_a_replay_that_came_out_alike_bears_the_bundle_out(
    bundle: Path, replay: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["bundle", "verify", str(bundle), "--level", "L6", "--replay", str(replay)]
    assert main(line) == 0
    assert "holds: L0, L1, L3, L5, L6" in capsys.readouterr().out
    assert main([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["levels"]["L6"] == "holds"


def test_other_answers_of_a_replay_have_their_own_exit_code(
    bundle: Path, replay: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(record: Any) -> None:
        record["traces"][0]["text_sha256"] = "0" * 64

    edited(replay, "records/ar.c1.r1.json", change)
    line = ["bundle", "verify", str(bundle), "--replay", str(replay), "--level"]
    assert main([*line, "L5"]) == 0
    assert main([*line, "L6"]) == ClaimsError.exit_code
    assert f"L6 {RECORD}: 1 of 6 answers are other ones: coding-00" in capsys.readouterr().err


def test_a_replay_of_something_else_and_a_damaged_one_prove_nothing(
    bundle: Path, copy: Path, replay: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["bundle", "verify", str(bundle), "--level", "L5"]
    assert main([*line, "--replay", str(copy)]) == ClaimsError.exit_code
    assert "is no replay of" in capsys.readouterr().err
    (replay / "README.md").unlink()
    assert main([*line, "--replay", str(replay)]) == BundleError.exit_code
    assert main(line) == UsageError.exit_code
    assert f"ddops bundle replay {bundle} --box local" in capsys.readouterr().err


def test_a_box_of_another_kind_endangers_claims_by_name(bundle: Path, machine: Machine) -> None:
    done = machine.ddops("bundle", "verify", str(bundle), "--level", "L4", "--box", "stand")
    assert done.returncode == CheckError.exit_code
    assert "L4 data/box-facts.json: system.memory was 8589934592, on the box it is " in done.stderr
    assert "endangers the speeds of every cell" in done.stderr
    assert "warning: endangered: C=1: ddtree-b8 is fastest" in done.stderr


def test_a_fault_of_the_bundle_comes_before_everything_that_needs_more(
    copy: Path, replay: Path
) -> None:
    (copy / "README.md").write_text("# other\n")
    for level in ("L4", "L5", "L6"):
        line = ["bundle", "verify", str(copy), "--level", level, "--replay", str(replay)]
        assert main(line) == BundleError.exit_code
