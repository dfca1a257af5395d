"""A run is packed, checked and shown; no single change to a bundle stays unseen."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddops.bundle import bag
from ddops.cli.app import main
from ddops.errors import BundleError, UsageError
from ddops.flows.bundle import create, show, verify
from ddops.spec.box import Box
from ddops.spec.load import read
from ddops.spec.matrix import Matrix
from tests.ddops import records

TOKEN = "hf_" + "Q" * 34
MUTATIONS = 200


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle's folder; its archive lies beside it. Tests that change it take a copy."""
    return create(records.written(tmp_path_factory.mktemp("made") / "results")).folder


@pytest.fixture
def copy(bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle, tmp_path / bundle.name))


def archive_of(bundle: Path) -> Path:
    return bundle.with_name(f"{bundle.name}.tar.zst")


def faults(path: Path) -> str:
    return "\n".join(map(str, verify(path).findings))


def test_a_fresh_bundle_has_no_fault(bundle: Path) -> None:
    for path in (bundle, archive_of(bundle)):
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
    assert read(bundle / "data/matrix.yaml", Matrix).fingerprint == of.fingerprint
    box = read(bundle / "data/box.yaml", Box, name="box")
    assert box.deployment == records.run(of).found
    assert "ddops deploy data/box.yaml --yes" in (bundle / "README.md").read_text()


def test_the_same_run_gives_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    again = records.written(tmp_path / "elsewhere")
    for path in again.glob("*.json"):
        path.chmod(0o600)
    made = create(again, tmp_path / "out")
    assert made.archive.read_bytes() == archive_of(bundle).read_bytes()


def test_packing_again_replaces_the_bundle_and_leaves_nothing_behind(tmp_path: Path) -> None:
    run = records.written(tmp_path / "results")
    first, second = create(run), create(run)
    assert first == second
    assert {path.name for path in first.folder.parent.iterdir()} == {
        first.folder.name,
        first.archive.name,
    }


def flip(path: Path, dice: random.Random) -> str:
    content = bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)
    return path.name


def cut(path: Path, dice: random.Random) -> str:
    content = path.read_bytes()
    path.write_bytes(content[: dice.randrange(len(content))])
    return path.name


def grow(path: Path, dice: random.Random) -> str:
    path.write_bytes(path.read_bytes() + dice.choice([b"\n", b" ", b"\0"]))
    return path.name


def drop(path: Path, dice: random.Random) -> str:
    path.unlink()
    return path.name


def rename(path: Path, dice: random.Random) -> str:
    return path.rename(path.with_name(f"a{dice.randrange(10**6)}-{path.name}")).name


def add(path: Path, dice: random.Random) -> str:
    new = path.with_name(f"{dice.randrange(10**6)}.json")
    shutil.copy(path, new)
    return new.name


def edit(path: Path, dice: random.Random) -> str:
    """A digit somewhere becomes another one, as a hand would do it."""
    text = path.read_text()
    places = [place for place, char in enumerate(text) if char in "12345678"]
    place = dice.choice(places or [0])
    path.write_text(text[:place] + "9" + text[place + 1 :])
    return path.name


def test_no_single_change_stays_unseen(bundle: Path, tmp_path: Path) -> None:
    dice = random.Random(20261129)
    names = sorted(p.relative_to(bundle) for p in bundle.rglob("*") if p.is_file())
    unseen = []
    for number in range(MUTATIONS):
        target = Path(shutil.copytree(bundle, tmp_path / str(number)))
        assert number % 20 or verify(target).findings == ()
        change = dice.choice([flip, flip, cut, grow, drop, rename, add, edit])
        path = dice.choice(names)
        named = change(target / path, dice)
        if named not in faults(target):
            unseen.append(f"{change.__name__} {path}")
        shutil.rmtree(target)
    assert unseen == []


def test_a_flipped_byte_of_the_archive_names_the_archive(bundle: Path, tmp_path: Path) -> None:
    dice = random.Random(7)
    broken = tmp_path / "b.tar.zst"
    for _ in range(50):
        shutil.copy(archive_of(bundle), broken)
        flip(broken, dice)
        with pytest.raises(BundleError) as told:
            verify(broken)
        assert (told.value.detail or "").startswith("b.tar.zst: ")


def forge(folder: Path, name: str, change: Callable[[Any], None]) -> None:
    """Change a JSON file and make every hash right again, as a forger would."""
    payload = {
        p.relative_to(folder / "data").as_posix(): p.read_bytes()
        for p in (folder / "data").rglob("*")
        if p.is_file()
    }
    value = json.loads(payload[name])
    change(value)
    payload[name] = json.dumps(value).encode()
    for path, content in bag.bagged(payload, b"# forged\n", {}).items():
        (folder / path).write_bytes(content)
    assert list(bag.check(folder)) == []


def numbers(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, inner in pairs for found in numbers(inner, (*path, key))]
    return [path] if isinstance(value, int | float) else []


def test_an_edited_aggregate_is_found_although_every_hash_is_right(
    bundle: Path, tmp_path: Path
) -> None:
    name = "records/ddtree-b8.c1.r1.json"
    metrics = json.loads((bundle / "data" / name).read_text())["metrics"]
    paths = numbers(metrics)
    assert len(paths) > 40
    target = Path(shutil.copytree(bundle, tmp_path / "forged"))
    for path in paths:

        def change(record: Any, path: tuple[str | int, ...] = path) -> None:
            place = record["metrics"] = json.loads(json.dumps(metrics))
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] += 1

        forge(target, name, change)
        said = faults(target)
        assert f"data/{name}: metrics.{'.'.join(map(str, path))} is " in said


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            "records/ar.c1.r1.json",
            lambda record: record["traces"].pop(),
            "data/records/ar.c1.r1.json: metrics.completed is 6, its traces give 5",
        ),
        (
            "records/ar.c1.r1.json",
            lambda record: record.update(window_s=None),
            "data/records/ar.c1.r1.json: has metrics, but no window",
        ),
        (
            "records/ar.c1.r1.json",
            lambda record: record["traces"][0]["chunks"][1].update(tokens=0),
            "data/records/ar.c1.r1.json: has traces that no client can have seen",
        ),
        (
            "records/ar.c1.r1.json",
            lambda record: record["cell"].update(repeat=2),
            "data/records/ar.c1.r1.json: holds the record of ar.c1.r2",
        ),
        (
            "records/ddtree-b8.c4.r1.failure.json",
            lambda record: record["gates"][0].update(green=True),
            "its name says the cell failed, its gates do not",
        ),
        (
            "records/ar.c1.r1.json",
            lambda record: record.update(matrix_fingerprint="0" * 64),
            "was measured for another matrix",
        ),
        (
            "records/ar.c1.r1.json",
            lambda record: record.update(fast=True),
            "data/records/ar.c1.r1.json: fast: ",
        ),
        (
            "run.json",
            lambda run: run["matrix"]["load"].update(requests=1),
            "data/run.json: the fingerprint is not that of the matrix beside it",
        ),
        (
            "run.json",
            lambda run: run["served"]["ar"].update(unit="[Service]\n"),
            "data/units/ar.service: is not the unit in data/run.json",
        ),
        (
            "bundle.json",
            lambda info: info.update(fingerprint="0" * 64),
            "data/bundle.json: names another matrix",
        ),
    ],
)
def test_a_forged_bundle_contradicts_itself(
    copy: Path, name: str, change: Callable[[Any], None], said: str
) -> None:
    forge(copy, name, change)
    assert said in faults(copy)


def test_a_link_is_told_and_not_followed(copy: Path) -> None:
    record = copy / "data/records/ar.c1.r1.json"
    record.unlink()
    record.symlink_to("/dev/zero")
    assert "data/records/ar.c1.r1.json: is not a regular file" in faults(copy)


def test_a_newer_format_says_what_to_install(copy: Path) -> None:
    forge(copy, "bundle.json", lambda info: info.update(schema_version=2, ddops_version="7.1"))
    for look in (verify, show):
        with pytest.raises(BundleError, match="schema version 2") as told:
            look(copy)
        assert "ddops>=7.1" in (told.value.hint or "")


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
    line = [sys.executable, "-m", "ddops", "bundle", "verify", str(archive_of(bundle))]
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
    assert main(["bundle", "show", str(archive_of(bundle))]) == 0
    assert len(capsys.readouterr().out.splitlines()) < 24


def test_create_prints_the_archive_alone_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = records.written(tmp_path / "results")
    assert main(["bundle", "create", str(run), "--out", str(tmp_path / "out")]) == 0
    assert Path(capsys.readouterr().out.strip()).parent == tmp_path / "out"
