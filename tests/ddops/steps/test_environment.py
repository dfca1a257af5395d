"""What is refused, with every reason; and how what a box lacks is cut and dealt out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddops.spec.environment import Manifest, Piece
from ddops.spec.observed import Gpu
from ddops.steps.environment import (
    PIECE,
    differing,
    imports,
    pieces,
    shards,
    too_large,
    unfit,
    unmovable,
)
from tests.ddops.environments import SITE, file, landing, manifest, tree
from tests.ddops.seen import observed

BOX = observed(system={"cpu_flags": ["avx2"], "glibc": "2.35"}).system
LIBC = {"path": "lib/x.so", "glibc": "2.38", "rpath": None}
BUILT = {"name": "x", "version": "1", "record": "r", "built_here": True, "modules": ("x",)}


def gpu(driver: str) -> Gpu:
    return Gpu.model_validate(
        {
            "index": 0,
            "name": "NVIDIA B300 SXM6",
            "memory_mib": 1,
            "driver": driver,
            "compute_capability": "10.3",
            "power_limit_w": None,
        }
    )


def refused(seen: Manifest, *, gpus: tuple[Gpu, ...] = (), **there: Any) -> list[str]:
    return [one.what for one in unfit(seen, landing(**there), BOX, gpus)]


def test_an_environment_that_fits_has_no_reason_against_it() -> None:
    assert refused(manifest(binaries=({**LIBC, "glibc": "2.35"},))) == []


@pytest.mark.parametrize(
    ("changes", "there", "reason"),
    [
        ({"arch": "aarch64"}, {}, "it is made for aarch64, the box is x86_64"),
        ({"binaries": (LIBC,)}, {}, "lib/x.so needs glibc 2.38, the box has 2.35"),
        ({"base": "/usr"}, {}, "it runs on the distribution's python3.11, which the box lacks"),
        ({}, {"python": None}, "the box has no `python3` to unpack with"),
        ({}, {"occupied": True}, "there is a `venv` in the state folder that ddops did not make"),
        (
            {"packages": (BUILT,)},
            {},
            "x: built on a processor with avx512f, which the box's lacks",
        ),
    ],
)
def test_what_would_not_run_there_is_told(
    changes: dict[str, Any], there: dict[str, Any], reason: str
) -> None:
    assert refused(manifest(**changes), **there) == [reason]


def test_every_reason_is_told_at_once() -> None:
    assert len(refused(manifest(arch="aarch64", binaries=(LIBC,)), python=None)) == 3


def test_glibc_is_compared_by_number_not_by_letter() -> None:
    older, newer = {**LIBC, "glibc": "2.4"}, {**LIBC, "glibc": "2.17", "path": "lib/y.so"}
    assert refused(manifest(binaries=(older, newer))) == []


@pytest.mark.parametrize(
    ("cuda", "driver", "refuses"),
    [
        ("13.0", "580.65.06", False),
        ("13.0", "575.57.08", True),
        ("12.9", "535.104.05", False),
        ("12.4", "470.82.01", True),
        (None, "470.82.01", False),
    ],
)
def test_a_driver_too_old_for_the_cuda_that_torch_was_built_for_is_refused(
    cuda: str | None, driver: str, *, refuses: bool
) -> None:
    assert bool(refused(manifest(cuda=cuda), gpus=(gpu(driver),))) == refuses


def test_what_is_no_environment_or_sees_the_systems_packages_cannot_be_moved() -> None:
    assert unmovable(manifest()) == []
    assert "no virtual environment" in unmovable(manifest(is_venv=False))[0]
    assert "would stay behind" in unmovable(manifest(system_site=True))[0]


def test_a_large_file_is_cut_and_a_gap_is_filled_from_where_it_begins() -> None:
    size = 2 * PIECE + 5
    seen = manifest(files=(file("lib/big.so", "b" * 64, size),))
    cut = pieces(seen, [("b" * 64, [(0, 7), (PIECE, size - PIECE)])])
    assert [(one.offset, one.length) for one in cut] == [
        (0, 7),
        (PIECE, PIECE),
        (2 * PIECE, 5),
    ]
    assert {one.source for one in cut} == {"/old/venv/lib/big.so"}


def test_a_piece_is_read_from_the_tree_its_file_lies_in() -> None:
    seen = manifest(files=(file("outside/python/bin/python3.11"),))
    assert pieces(seen, [("a" * 64, [(0, 10)])])[0].source == "/opt/python/bin/python3.11"


@given(st.lists(st.integers(1, PIECE), max_size=60), st.integers(1, 16))
def test_shards_hold_everything_once_and_differ_by_one_piece_at_most(
    lengths: list[int], connections: int
) -> None:
    wanted = [
        Piece(source=str(i), sha256="", size=n, offset=0, length=n) for i, n in enumerate(lengths)
    ]
    dealt = shards(wanted, connections)
    assert sorted(one.source for shard in dealt for one in shard) == sorted(
        map(str, range(len(lengths)))
    )
    sizes = [sum(one.length for one in shard) for shard in dealt]
    assert len(dealt) <= min(connections, 1 + sum(lengths) // 2_000_000)
    if dealt:
        assert max(sizes) - min(sizes) <= max(lengths)


def test_too_little_disk_is_refused_with_both_numbers() -> None:
    wanted = [Piece(source="", sha256="", size=1, offset=0, length=3_000_000_000)]
    assert too_large(wanted, 4_000_000_000) is None
    found = too_large(wanted, 3_000_000_000)
    assert found is not None
    assert found.what == "it takes 3.5 GB, 3.0 GB are free"


def test_what_has_to_be_importable_is_the_engine_and_whatever_was_touched_by_hand() -> None:
    patch = {"package": "y", "path": "p", "change": "changed", "installed": None, "found": None}
    seen = manifest(
        files=(
            file(f"{SITE}/torch/__init__.py"),
            file(f"{SITE}/other/numpy/__init__.py"),
            file("outside/ddops/runtime/ddtree/__init__.py"),
        ),
        packages=(BUILT, {**BUILT, "name": "y", "built_here": False, "modules": ("yy",)}),
        patches=(patch,),
        trees=(tree("", "/old/venv"),),
    )
    assert imports(seen) == ["ddtree", "torch", "x", "yy"]


def test_files_that_changed_came_or_went_are_named() -> None:
    was = manifest(files=(file("a"), file("b"), file("c")))
    now = manifest(files=(file("a"), file("b", "b" * 64), file("d")))
    assert differing(was, now) == ["changed: b", "removed: c", "added: d"]


def test_the_identity_is_of_the_content_not_of_times_and_places() -> None:
    one = manifest(files=(file("a"),))
    later = manifest(files=({**file("a"), "mtime_ns": 2},), prefix="/elsewhere")
    assert one.identity == later.identity
    assert one.identity != manifest(files=({**file("a"), "mode": 0o755},)).identity
