"""Two bundles are compared if both are whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddops.cli.app import main
from ddops.errors import BundleError
from ddops.flows.bundle import create
from ddops.flows.bundle_diff import diff
from tests.ddops import records


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The same run on a box with another kernel and a cell less."""
    run = records.written(tmp_path / "results")
    (run / "ar.c4.r1.json").unlink()
    noted = json.loads((run / "run.json").read_text())
    noted["box_facts"]["system"]["kernel"] = "6.12.0"
    (run / "run.json").write_text(json.dumps(noted))
    return create(run).archive


def test_a_folder_and_its_archive_do_not_differ(bundle: Path) -> None:
    assert diff(bundle, records.archive_of(bundle)).found == ()


def test_what_differs_is_found_across_archives(bundle: Path, other: Path) -> None:
    found = diff(records.archive_of(bundle), other).found
    assert {(one.subject, one.what) for one in found} == {
        ("box", "system.kernel"),
        ("result", "ar.c4.r1"),
    }


def test_what_was_changed_is_not_compared(bundle: Path, copy: Path) -> None:
    (copy / "README.md").write_text("# better\n")
    with pytest.raises(BundleError, match="damaged"):
        diff(bundle, copy)


def test_the_command_draws_a_table_or_says_that_there_is_none(
    bundle: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bundle", "diff", str(bundle), str(bundle)]) == 0
    assert capsys.readouterr().out == "no difference\n"
    assert main(["bundle", "diff", str(bundle), str(other)]) == 0
    assert "6.12.0" in capsys.readouterr().out
    assert main(["bundle", "diff", str(bundle), str(other), "--json"]) == 0
    assert {one["subject"] for one in json.loads(capsys.readouterr().out)} == {"box", "result"}
