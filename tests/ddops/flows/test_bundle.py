"""A run is packed without anything private, checked, and shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ddops.cli.app import main
from ddops.errors import BundleError, UsageError
from ddops.flows.bench import load_matrix
from ddops.flows.bundle import create
from ddops.flows.bundle_verify import verify
from ddops.spec.box import Box
from ddops.spec.load import read
from tests.ddops import records

TOKEN = "hf_" + "Q" * 34


def test_a_fresh_bundle_has_no_fault(bundle: Path) -> None:
    for path in (bundle, records.archive_of(bundle)):
        seen = verify(path)
        assert seen.findings == ()
        assert (seen.records, seen.derived) == (8, 7)


def test_it_holds_what_a_stranger_needs(bundle: Path) -> None:
    names = {p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file()}
    assert names >= {
        "README.md",
        "data/bundle.json",
        "data/run.json",
        "data/matrix.yaml",
        "data/box.yaml",
        "data/box-facts.json",
        "data/weights.json",
        "data/redactions.json",
        "data/report/report.html",
        "data/report/report.md",
        "data/records/ar.c1.r1.json",
        "data/records/ddtree-b16.c4.r1.failure.json",
        "data/units/ddtree-b8.service",
        "data/units/ddtree-b8.arguments.json",
    }
    report = (bundle / "data/report/report.md").read_text()
    assert "](../records/ar.c1.r1.json)" in report


def test_what_it_says_to_repeat_can_be_read_by_ddops(bundle: Path) -> None:
    of = records.matrix()
    assert load_matrix(str(bundle / "data/matrix.yaml")).fingerprint == of.fingerprint
    box = read(bundle / "data/box.yaml", Box, name="box")
    assert box.deployment == records.run(of).found
    assert "ddops deploy data/box.yaml --yes" in (bundle / "README.md").read_text()


def test_the_same_run_gives_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    again = records.written(tmp_path / "elsewhere")
    for path in again.glob("*.json"):
        path.chmod(0o600)
    made = create(again, tmp_path / "out")
    assert made.archive.read_bytes() == records.archive_of(bundle).read_bytes()


def test_packing_again_replaces_the_bundle_and_leaves_nothing_behind(tmp_path: Path) -> None:
    run = records.written(tmp_path / "results")
    first, second = create(run), create(run)
    assert first == second
    assert {path.name for path in first.folder.parent.iterdir()} == {
        first.folder.name,
        first.archive.name,
    }


def test_nothing_private_enters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = {
        "HF_TOKEN": TOKEN,
        "SOME_API_KEY": 'pl4nted "key" value',
        "DB_PASSWORD": "correct-horse-battery",
    }
    for name, value in private.items():
        monkeypatch.setenv(name, value)
    run = records.written(tmp_path / "results")
    spot = run / "ddtree-b16.c4.r1.failure.json"
    record = json.loads(spot.read_text())
    record["failure"]["log_tail"] = "\n".join([*private.values(), "/home/alice/.cache/m.gguf"])
    record["failure"]["message"] = f"403 for https://bob:hunter2@example.com/?token={TOKEN}"
    record["engine"]["argv"] += ["--model", "/home/alice/m.gguf"]
    record["engine"]["info"][f"key {TOKEN}"] = 1
    spot.write_text(json.dumps(record))
    noted = json.loads((run / "run.json").read_text())
    noted["box_facts"]["system"]["user"] = "alice"
    noted["served"]["ar"]["unit"] += "Environment=HOME=/home/alice\n"
    (run / "run.json").write_text(json.dumps(noted))
    made = create(run)
    assert verify(made.archive).findings == ()
    everything = b"".join(p.read_bytes() for p in made.folder.rglob("*") if p.is_file())
    for word in (TOKEN, "pl4nted", "correct-horse", "alice", "hunter2", "bob:"):
        assert word.encode() not in everything
    listed = json.loads((made.folder / "data/redactions.json").read_text())
    assert {"file": f"records/{spot.name}", "kind": "secret", "count": 5} in listed
    assert sum(made.redacted.values()) == sum(each["count"] for each in listed)


def test_a_run_that_contradicts_itself_is_not_packed(tmp_path: Path) -> None:
    run = records.written(tmp_path / "results")
    path = run / "ar.c1.r1.json"
    record = json.loads(path.read_text())
    record["metrics"]["output_tok_s"] *= 2
    path.write_text(json.dumps(record))
    with pytest.raises(BundleError, match="not packed") as told:
        create(run)
    assert "ar.c1.r1.json: metrics.output_tok_s" in (told.value.detail or "")
    assert list((tmp_path / "results" / "bundles").iterdir()) == []


def test_the_engines_packages_travel_and_are_asked_for_once(tmp_path: Path) -> None:
    run = records.written(tmp_path / "results")
    noted = json.loads((run / "run.json").read_text())
    noted["box_facts"]["python"]["executable"] = sys.executable
    (run / "run.json").write_text(json.dumps(noted))
    first = create(run)
    found = json.loads((first.folder / "data/environment.json").read_text())
    packages = {package["name"]: package for package in found["packages"]}
    assert len(packages["pydantic"]["record_sha256"]) == 64
    noted["box_facts"]["python"]["executable"] = "gone"
    (run / "run.json").write_text(json.dumps(noted))
    assert (create(run).folder / "data/environment.json").is_file()


def test_a_bundle_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        verify(tmp_path / "nothing.tar.zst")
    assert "ddops bundle create" in (told.value.hint or "")


def test_an_archive_leaves_nothing_behind(bundle: Path, tmp_path: Path) -> None:
    environment = {"TMPDIR": str(tmp_path), "PATH": ""}
    line = [sys.executable, "-m", "ddops", "bundle", "verify", str(records.archive_of(bundle))]
    subprocess.run(line, env=environment, check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == []


def test_the_commands_speak_to_people_and_to_scripts(
    bundle: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bundle", "verify", str(bundle)]) == 0
    assert "7 of 8 records derived again and equal" in capsys.readouterr().out
    (copy / "data/run.json").unlink()
    assert main(["bundle", "verify", str(copy)]) == 10
    said = capsys.readouterr()
    assert said.out == ""
    assert "data/run.json: is missing" in said.err
    assert main(["bundle", "verify", str(copy), "--json"]) == 10
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert told["findings"][0]["file"] == "data/run.json"
    assert main(["bundle", "show", str(bundle), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"] == {"ok": 6, "failed": 1, "invalid": 1}
    assert main(["bundle", "show", str(records.archive_of(bundle))]) == 0
    assert len(capsys.readouterr().out.splitlines()) < 24


def test_create_prints_the_archive_alone_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = records.written(tmp_path / "results")
    assert main(["bundle", "create", str(run), "--out", str(tmp_path / "out")]) == 0
    assert Path(capsys.readouterr().out.strip()).parent == tmp_path / "out"
