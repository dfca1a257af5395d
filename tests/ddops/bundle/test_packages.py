"""The environment in the words of others is read by their own libraries, and says what it lacks."""

from __future__ import annotations

import json
import tomllib

from packaging.pylock import Pylock

from ddops.bundle import packages
from ddops.spec.packages import Environment, Origin, Package
from tests.ddops import records

TOLD = records.told(records.run(records.matrix()))
URL = "https://example.org/own-1.2-py3-none-any.whl"
SEEN = Environment(
    python="CPython 3.11.7",
    platform="Linux-6.1.0-x86_64-with-glibc2.36",
    packages=(
        Package(
            name="ddops",
            version="0.1.0",
            record_sha256="1" * 64,
            origin=Origin(kind="directory", url=None),
        ),
        Package(
            name="kernels",
            version="2.0",
            record_sha256=None,
            origin=Origin(kind="vcs", url="https://example.org/k", vcs="git", commit="c" * 40),
        ),
        Package(
            name="own",
            version="1.2",
            record_sha256="2" * 64,
            origin=Origin(kind="archive", url=URL, sha256="d" * 64),
        ),
        Package(
            name="torch",
            version="2.13.0+cpu",
            record_sha256="3" * 64,
            wheel="torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        ),
    ),
)


def test_a_lock_pins_what_is_known_and_lists_what_is_not() -> None:
    text = packages.lock(SEEN)
    lock = Pylock.from_dict(tomllib.loads(text))
    lock.validate()
    assert [str(package.name) for package in lock.packages] == ["kernels", "own"]
    archive = lock.packages[1].archive
    assert archive is not None
    assert (archive.url, archive.hashes) == (URL, {"sha256": "d" * 64})
    unpinned = tomllib.loads(text)["tool"]["ddops"]["unpinned"]
    assert [package["name"] for package in unpinned] == ["ddops", "torch"]
    assert unpinned[1]["wheel"].startswith("torch-2.13.0+cpu-cp311")
    assert unpinned[1]["record-sha256"] == "3" * 64


def test_a_freeze_is_what_pip_would_be_asked_for() -> None:
    assert packages.freeze(SEEN).splitlines() == [
        "ddops==0.1.0",
        f"kernels @ git+https://example.org/k@{'c' * 40}",
        f"own @ {URL}",
        "torch==2.13.0+cpu",
    ]


def test_the_bill_of_materials_names_every_package_and_is_always_the_same() -> None:
    text = packages.sbom(SEEN, TOLD)
    assert text == packages.sbom(SEEN, TOLD)
    said = json.loads(text)
    assert (said["bomFormat"], said["specVersion"]) == ("CycloneDX", "1.6")
    assert [each["name"] for each in said["components"]] == ["ddops", "kernels", "own", "torch"]
    assert said["components"][3]["purl"] == "pkg:pypi/torch@2.13.0%2Bcpu"
    assert said["metadata"]["timestamp"].startswith("2026-11-29T18:04:01")


def test_a_wheel_of_a_folder_is_named_without_the_folder() -> None:
    wheel = "own-1.2-py3-none-any.whl"
    origin = Origin(kind="archive", url=None, sha256="d" * 64)
    own = Package(name="own", version="1.2", record_sha256=None, wheel=wheel, origin=origin)
    seen = SEEN.model_copy(update={"packages": (own,)})
    lock = Pylock.from_dict(tomllib.loads(packages.lock(seen)))
    lock.validate()
    archive = lock.packages[0].archive
    assert archive is not None
    assert (archive.path, archive.url, archive.hashes) == (wheel, None, {"sha256": "d" * 64})
    assert packages.freeze(seen) == "own==1.2\n"
