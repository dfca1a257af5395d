"""What was made to do harm is refused in seconds and half a gigabyte, with the file and why."""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import zstandard

from ddops.bundle import archive, bag
from tests.ddops import records

MEMORY = 512 << 20  # bytes
SECONDS = 60  # an upper bound for a machine that is busy; alone each takes less than 5
TOP = "local-demo-a7c2d775"


def refused(path: Path) -> str:
    """What `ddops bundle verify` says with so much memory and no more."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    line = [sys.executable, "-m", "ddops", "bundle", "verify", str(path)]
    environment = {"PATH": "", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(path.parent)}
    began = time.monotonic()
    done = subprocess.run(
        line, env=environment, preexec_fn=limit, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 10, done.stderr
    assert time.monotonic() - began < SECONDS
    return done.stderr


def written(path: Path, tar: Iterable[bytes]) -> Path:
    """Sealed, as only an honest mistake would not be."""
    settings = zstandard.ZstdCompressionParameters.from_level(
        1, window_log=archive.WINDOW_LOG, write_checksum=1, write_content_size=0
    )
    compressing, digest = zstandard.ZstdCompressor(compression_params=settings), hashlib.sha256()
    running = compressing.compressobj()
    with path.open("wb") as file:
        for piece in tar:
            digest.update(part := running.compress(piece))
            file.write(part)
        digest.update(part := running.flush())
        file.write(part + archive.seal(digest.digest()))
    return path


def header(name: str, size: int = 0, **changes: object) -> bytes:
    info = tarfile.TarInfo(f"{TOP}/{name}")
    info.size, info.mode = size, 0o644
    for key, value in changes.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.USTAR_FORMAT)


def ended(*blocks: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter([*blocks, bytes(1024)])


def bomb() -> Iterator[bytes]:
    yield header("data/a", 3 << 30)
    yield from (bytes(1 << 22) for _ in range(3 << 8))
    yield bytes(1024)


def small_bombs() -> Iterator[bytes]:
    for number in range(100):
        yield header(f"data/{number:03}", 4 << 20)
        yield bytes(4 << 20)
    yield bytes(1024)


def tiny_files() -> Iterator[bytes]:
    block = bytearray(header("data/000000"))
    place = len(f"{TOP}/data/")
    for number in range(100_000):
        block[place : place + 6] = b"%06d" % number
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        yield bytes(block)
    yield bytes(1024)


@pytest.mark.parametrize(
    ("tar", "said"),
    [
        (ended(header("../../out")), "'local-demo-a7c2d775/../../out' is not a name inside"),
        (ended(header("l", type=tarfile.SYMTYPE, linkname="/etc/passwd")), "/l' is not a plain"),
        (ended(header("l", type=tarfile.LNKTYPE, linkname="../out")), "/l' is not a plain file"),
        (ended(header("d", type=tarfile.CHRTYPE)), "/d' is not a plain file"),
        (ended(header("a"), header("a")), f"{TOP}/a comes after {TOP}/a"),
        (ended(header("a", 600), bytes(512)), "it ends too early"),
        (bomb, "it unpacks to more than"),
        (small_bombs, "it unpacks to more than"),
        (tiny_files, "it holds more than 10000 files"),
    ],
)
def test_a_hostile_archive_is_refused(
    tmp_path: Path, tar: Callable[[], Iterator[bytes]], said: str
) -> None:
    path = written(tmp_path / "b.tar.zst", tar())
    told = refused(path)
    assert "\nb.tar.zst: " in told
    assert said in told
    assert list(tmp_path.iterdir()) == [path]


def test_a_truncated_archive_is_refused(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.tar.zst"
    path.write_bytes(records.archive_of(bundle).read_bytes()[:-100])
    assert "b.tar.zst: it was changed, or cut short" in refused(path)


FULL = bag.MOST_READ - (1 << 20)


@pytest.mark.parametrize(
    ("field", "spam", "said"),
    [
        ("traces", "[" + "1," * (FULL // 2) + "1]", "more than 300000 values besides chunks"),
        ("traces", '[{"chunks":[' + '{"at":1,"tokens":1},' * (FULL // 20) + "1]}]", "traces.0."),
        ("counters_after", "{%s}", "more than 300000 values besides chunks"),
        ("metrics", "{%s}", "more than 300000 values besides chunks"),
        ("gates", "[" + "{}," * 99_999 + "{}]", "things in it are wrong"),
        ("window_s", "[" * FULL, "recursion limit exceeded"),
        ("window_s", "9" * FULL, "number out of range"),
        ("command", '["' + "x" * (bag.MOST_READ + 1) + '"]', "longer than 6 MiB"),
    ],
)
def test_a_record_that_would_fill_the_memory_is_told(
    bundle: Path, tmp_path: Path, field: str, spam: str, said: str
) -> None:
    name = "records/ar.c1.r1.json"
    payload = {
        p.relative_to(bundle / "data").as_posix(): p.read_bytes()
        for p in (bundle / "data").rglob("*.*")
    }
    record = json.loads(payload[name])
    record[field] = "@"
    full = spam.replace("%s", ",".join(f'"{number:x}":[]' for number in range(FULL // 10)))
    payload[name] = json.dumps(record).replace('"@"', full).encode()
    path = tmp_path / "b.tar.zst"
    with path.open("wb") as target:
        archive.pack(bag.bagged(payload, b"# forged\n", {}), bundle.name, target)
    told = refused(path)
    assert f"data/{name}: " in told
    assert said in told


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        (13, "more than 3000000 chunks"),
        (11, "metrics.completed is 6, its traces give 11"),
        (-1, "a line is cut off, or longer than 6 MiB"),
    ],
    ids=["too many", "as many as may be", "in one line"],
)
def test_a_long_record_is_told_request_by_request(
    bundle: Path, tmp_path: Path, requests: int, said: str
) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / bundle.name))
    path = folder / "data/records/ar.c1.r1.json"
    record = json.loads(path.read_text())
    many = '{"at":1,"tokens":1},' * (250_000 if requests > 0 else 400_000)
    trace = json.dumps({**record["traces"][0], "chunks": "@"}).replace('"@"', f"[{many[:-1]}]")
    head = json.dumps({key: value for key, value in record.items() if key != "traces"})
    with path.open("w") as file:
        file.write(f'{head[:-1]},"traces":[\n')
        file.write(f"{trace},\n" * (abs(requests) - 1) + f"{trace}\n]}}\n")
    data = {p.relative_to(folder / "data").as_posix(): p for p in folder.glob("data/**/*.*")}
    for name, content in bag.bagged(data, b"# forged\n", {}).items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
    told = refused(folder)
    assert "data/records/ar.c1.r1.json: " in told
    assert said in told
