"""The archive is the same for the same files, and a hostile one writes nothing outside."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from ddops.bundle import archive
from ddops.errors import BundleError

FILES = {"README.md": b"# claims\n", "data/a.json": b"{}" * 400, "data/b.json": b""}


def packed(files: dict[str, bytes] = FILES) -> bytes:
    target = io.BytesIO()
    archive.pack(files, "top", target)
    return target.getvalue()


def squeezed(tar: bytes) -> bytes:
    compressing = archive.compressor().compressobj()
    return sealed(compressing.compress(tar) + compressing.flush())


def sealed(content: bytes) -> bytes:
    """With the seal that only keeps honest mistakes out."""
    return content + archive.seal(hashlib.sha256(content).digest())


def unpacked(content: bytes, tmp_path: Path) -> Path:
    source, inside = tmp_path / "b.tar.zst", tmp_path / "inside"
    inside.mkdir(parents=True)
    source.write_bytes(content)
    return archive.unpack(source, inside)


def test_what_is_packed_is_unpacked(tmp_path: Path) -> None:
    top = unpacked(packed(), tmp_path)
    got = {p.relative_to(top).as_posix(): p.read_bytes() for p in top.rglob("*") if p.is_file()}
    assert got == FILES


def test_the_same_files_give_the_same_bytes_in_any_order() -> None:
    assert packed(dict(reversed(FILES.items()))) == packed()


def test_ordinary_tools_read_it(tmp_path: Path) -> None:
    source = tmp_path / "b.tar.zst"
    source.write_bytes(packed())
    subprocess.run(["tar", "--zstd", "-xf", source, "-C", tmp_path], check=True)
    assert (tmp_path / "top" / "data" / "a.json").read_bytes() == FILES["data/a.json"]


def test_a_flipped_byte_anywhere_is_noticed(tmp_path: Path) -> None:
    good, unseen = packed(), []
    source, inside = tmp_path / "b.tar.zst", tmp_path / "inside"
    for place in range(len(good)):
        source.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        inside.mkdir()
        try:
            archive.unpack(source, inside)
            unseen.append(place)
        except BundleError as told:
            assert told.detail is not None and told.detail.startswith("b.tar.zst: ")
        subprocess.run(["rm", "-r", inside], check=True)
    assert unseen == []


@pytest.mark.parametrize("left", [0, 3, 6, 40, -5, -1])
def test_a_torn_archive_is_noticed(tmp_path: Path, left: int) -> None:
    with pytest.raises(BundleError):
        unpacked(packed()[:left], tmp_path)


@pytest.mark.parametrize("more", [b"\0", packed(), b"PK\x03\x04"])
def test_what_follows_the_end_is_noticed(tmp_path: Path, more: bytes) -> None:
    with pytest.raises(BundleError, match="trusted"):
        unpacked(packed() + more, tmp_path)
    with pytest.raises(BundleError) as told:
        unpacked(sealed(packed() + more), tmp_path / "again")
    assert "follows its end" in (told.value.detail or "")


def member(name: str, **changes: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.mode, info.size = 0o644, 1
    for key, value in changes.items():
        setattr(info, key, value)
    return info, b"x" * info.size


def tar_of(
    *members: tuple[tarfile.TarInfo, bytes], form: Literal[0, 1, 2] = tarfile.USTAR_FORMAT
) -> bytes:
    blocks = []
    for info, content in members:
        blocks += [info.tobuf(form), content, bytes(-len(content) % 512)]
    return b"".join([*blocks, bytes(1024)])


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([member("top/../../out")], "not a name inside"),
        ([member("../out")], "not a name inside"),
        ([member("/tmp/out")], "not a name inside"),
        ([member("top/./out")], "not a name inside"),
        ([member("out")], "not a name inside"),
        ([member("top/a\\b")], "not a name inside"),
        ([member("top/l", type=tarfile.SYMTYPE, linkname="/etc/passwd", size=0)], "plain file"),
        ([member("top/l", type=tarfile.LNKTYPE, linkname="../out", size=0)], "plain file"),
        ([member("top/d", type=tarfile.CHRTYPE, size=0)], "plain file"),
        ([member("top/f", type=tarfile.FIFOTYPE, size=0)], "plain file"),
        ([member("top/d", type=tarfile.DIRTYPE, size=0)], "plain file"),
        ([member("top/p", type=tarfile.XHDTYPE)], "plain file"),
        ([member("top/n", type=tarfile.GNUTYPE_LONGNAME)], "plain file"),
        ([member("top/a", mode=0o4755)], "more than name and size"),
        ([member("top/a", uid=1000)], "more than name and size"),
        ([member("top/a", mtime=5)], "more than name and size"),
        ([member("top/b"), member("top/a")], "comes after"),
        ([member("top/a"), member("top/a")], "comes after"),
        ([member("top/a"), member("top/a/b")], "cannot be unpacked"),
        ([member("a/a"), member("b/a")], "2 folders"),
        ([], "0 folders"),
    ],
)
def test_a_hostile_archive_is_refused(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], reason: str
) -> None:
    with pytest.raises(BundleError) as told:
        unpacked(squeezed(tar_of(*members)), tmp_path)
    assert reason in (told.value.detail or "")
    assert {p.name for p in tmp_path.iterdir()} == {"b.tar.zst", "inside"}


def test_a_huge_member_is_refused_before_it_is_written(tmp_path: Path) -> None:
    info, _ = member("top/a")
    info.size = archive.MOST_BYTES
    with pytest.raises(BundleError, match="trusted") as told:
        unpacked(squeezed(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20)), tmp_path)
    assert "it unpacks to more than 16 MiB" in (told.value.detail or "")
    assert list((tmp_path / "inside").iterdir()) == []


def test_a_bomb_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 1 << 20)
    with pytest.raises(BundleError):
        unpacked(packed({f"data/{i}": bytes(300_000) for i in range(9)}), tmp_path)
    assert sum(p.stat().st_size for p in (tmp_path / "inside").rglob("*")) < 2 << 20


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_FILES", 2)
    with pytest.raises(BundleError):
        unpacked(packed(), tmp_path)


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"",
        lambda: b"not an archive",
        lambda: sealed(b""),
        lambda: sealed(b"PK" * 99),
        lambda: squeezed(b""),
        lambda: squeezed(b"not a tar" * 200),
        lambda: squeezed(tar_of(member("top/a"))[:-512]),
        lambda: squeezed(tar_of(member("top/a"), form=tarfile.GNU_FORMAT)),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, make: Callable[[], bytes]) -> None:
    with pytest.raises(BundleError):
        unpacked(make(), tmp_path)
