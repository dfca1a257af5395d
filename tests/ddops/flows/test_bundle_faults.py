"""No change to a bundle stays unseen, and a forged one contradicts itself."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddops.bundle import bag
from ddops.errors import BundleError
from ddops.flows.bundle import show
from ddops.flows.bundle_verify import verify
from tests.ddops import records


def faults(path: Path) -> str:
    return "\n".join(map(str, verify(path).findings))


def flip(path: Path, dice: random.Random) -> str:
    content = bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)
    return path.name


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
