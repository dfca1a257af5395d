"""No change to a bundle stays unseen, and a forged one contradicts itself."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddops.bundle import bag
from ddops.errors import BundleError
from ddops.flows.bundle import show, sign
from ddops.flows.bundle_verify import verify
from tests.ddops import records

MUTATIONS = 200


def faults(path: Path, signers: Path | None = None) -> str:
    return "\n".join(map(str, verify(path, signers).findings))


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


@pytest.fixture
def signers(copy: Path, tmp_path: Path) -> Path:
    """Those who may sign; one of them has signed `copy`."""
    key, trusted = tmp_path / "key", tmp_path / "signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    trusted.write_text(f"alice@example.org {key.with_suffix('.pub').read_text()}")
    assert sign(copy, key)
    return trusted


def test_no_single_change_stays_unseen(copy: Path, signers: Path, tmp_path: Path) -> None:
    dice = random.Random(20261129)
    names = sorted(p.relative_to(copy) for p in copy.rglob("*") if p.is_file())
    names += [Path(bag.SIGNATURE)] * 4
    unseen = []
    for number in range(MUTATIONS):
        target = Path(shutil.copytree(copy, tmp_path / str(number)))
        assert number % 20 or verify(target, signers).findings == ()
        change = dice.choice([flip, flip, cut, grow, drop, rename, add, edit])
        path = dice.choice(names)
        named = change(target / path, dice)
        if named not in faults(target, signers):
            unseen.append(f"{change.__name__} {path}")
        shutil.rmtree(target)
    assert unseen == []


def test_a_flipped_byte_of_the_archive_names_the_archive(bundle: Path, tmp_path: Path) -> None:
    dice = random.Random(7)
    broken = tmp_path / "b.tar.zst"
    for _ in range(50):
        shutil.copy(records.archive_of(bundle), broken)
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
            lambda record: record["traces"][0]["chunks"][1].update(tokens=10**15),
            "data/records/ar.c1.r1.json: has traces that no client can have seen: a chunk cannot",
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
    forge(copy, "bundle.json", lambda info: info.update(schema_version=3, ddops_version="7.1"))
    for look in (verify, show):
        with pytest.raises(BundleError, match="schema version 3") as told:
            look(copy)
        assert "ddops>=7.1" in (told.value.hint or "")
