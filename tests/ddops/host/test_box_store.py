"""Pieces of files on their way: what is kept of a broken stream, and what is not trusted."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddops.host import box_store
from ddops.host.box_store import NOTE, gaps
from ddops.host.stream import STORE

CONTENT = bytes(range(256)) * 8192  # 2 MiB: shared by a link
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)


def store(
    stage: Path, verb: str, *words: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-I", "-c", STORE, verb, str(stage), *words]
    return subprocess.run(line, input=stdin, capture_output=True, check=False)


def packed(*pieces: tuple[bytes, int, int], end: bytes = b"\n") -> bytes:
    """Of (content, offset, length), as the packer writes them."""
    out = io.BytesIO()
    for content, offset, length in pieces:
        head = [hashlib.sha256(content).hexdigest(), len(content), offset, length]
        out.write(json.dumps(head).encode() + b"\n" + content[offset : offset + length])
    return out.getvalue() + end


def lacks(stage: Path, envs: Path, *distrusted: str) -> Any:
    asked = json.dumps({"files": [[SHA256, SIZE]], "distrusted": distrusted})
    return json.loads(store(stage, "lacks", str(envs), stdin=asked.encode()).stdout)


def assembled(stage: Path, envs: Path, *files: tuple[Any, ...], **more: Any) -> dict[str, Any]:
    told = {"distrusted": [], "links": [], "texts": {}, "rpaths": [], **more}
    orders = json.dumps({**told, "files": files})
    done = store(stage, "assemble", str(envs / "e"), stdin=orders.encode())
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@given(st.data())
def test_gaps_are_exactly_what_no_piece_covers(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 60))
    spans = st.tuples(st.integers(0, size - 1), st.integers(1, size))
    have = sorted((a, min(n, size - a)) for a, n in data.draw(st.lists(spans, max_size=6)))
    covered = {at for a, n in have for at in range(a, a + n)}
    missing = {at for a, n in gaps(size, have) for at in range(a, a + n)}
    assert missing == set(range(size)) - covered


def test_pieces_that_came_before_a_stream_broke_are_kept(tmp_path: Path) -> None:
    stage, half = tmp_path / "s", SIZE // 2
    first, second = (CONTENT, 0, half), (CONTENT, half, SIZE - half)
    done = store(stage, "receive", "plain", stdin=packed(first, second)[: half + 5000])
    assert done.returncode == 1
    assert lacks(stage, tmp_path) == [[SHA256, [[half, SIZE - half]]]]
    store(stage, "receive", "plain", stdin=packed(second))
    assert lacks(stage, tmp_path) == []
    told = assembled(stage, tmp_path, ("lib/x.so", SHA256, SIZE, 0o755, 10**18))
    assert told == {"bad": [], "changed": {}}
    made = tmp_path / "e" / "lib" / "x.so"
    assert made.read_bytes() == CONTENT
    assert (made.stat().st_mode & 0o777, made.stat().st_mtime_ns) == (0o755, 10**18)


def test_a_small_file_that_is_not_what_it_says_is_not_kept(tmp_path: Path) -> None:
    stream = packed((b"good", 0, 4)).replace(b"good", b"evil")
    done = store(tmp_path / "s", "receive", "plain", stdin=stream)
    assert (done.returncode, done.stdout) == (0, b"")  # the stream goes on behind it
    assert list((tmp_path / "s").iterdir()) == []


def test_a_large_file_that_is_not_what_it_says_is_told_and_wanted_again(tmp_path: Path) -> None:
    stage, half = tmp_path / "s", SIZE // 2
    store(stage, "receive", "plain", stdin=packed((CONTENT, 0, half), (CONTENT, half, SIZE - half)))
    part = stage / f"{SHA256}.part"
    part.write_bytes(b"x" + CONTENT[1:])
    told = assembled(stage, tmp_path, ("x.so", SHA256, SIZE, 0o644, 1))
    assert told["bad"] == [SHA256]
    assert lacks(stage, tmp_path) == [[SHA256, [[0, SIZE]]]]


def proven(envs: Path, content: bytes) -> Path:
    path = envs / "old" / "lib" / "x.so"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    note = {"path": "lib/x.so", "sha256": SHA256, "size": SIZE, "mtime_ns": path.stat().st_mtime_ns}
    (envs / "old" / NOTE).write_text(json.dumps({"files": [note]}), "utf-8")
    return path


def test_a_file_of_another_environment_is_not_sent_and_shared_by_a_link(tmp_path: Path) -> None:
    old = proven(tmp_path, CONTENT)
    assert lacks(tmp_path / "s", tmp_path) == []
    stat = old.stat()
    told = (("lib/y.so", SHA256, SIZE, stat.st_mode & 0o7777, stat.st_mtime_ns),)
    assembled(tmp_path / "s", tmp_path, *told)
    assert (tmp_path / "e" / "lib" / "y.so").samefile(old)


def test_another_environments_file_that_changed_unseen_is_found_out_and_not_asked_again(
    tmp_path: Path,
) -> None:
    old = proven(tmp_path, CONTENT)
    times = (old.stat().st_atime_ns, old.stat().st_mtime_ns)
    old.write_bytes(b"x" + CONTENT[1:])
    os.utime(old, ns=times)
    told = assembled(tmp_path / "s", tmp_path, ("y.so", SHA256, SIZE, 0o644, 1))
    assert told["bad"] == [SHA256]
    assert lacks(tmp_path / "s", tmp_path, SHA256) == [[SHA256, [[0, SIZE]]]]
    assert old.exists()


def test_what_is_rewritten_is_never_written_through_a_link(tmp_path: Path) -> None:
    old = proven(tmp_path, CONTENT)
    stat = old.stat()
    told = ("lib/x.so", SHA256, SIZE, stat.st_mode & 0o7777, stat.st_mtime_ns)
    assembled(tmp_path / "s", tmp_path, told, texts={"lib/x.so": "new"})
    assert old.read_bytes() == CONTENT
    assert (tmp_path / "e" / "lib" / "x.so").read_text() == "new"


def test_an_rpath_is_written_over_the_old_one_and_the_new_digest_told(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(b"\x7fELF..\0/old/place/lib\0tail")
    told = box_store.turn(path, "/old/place/lib", "$ORIGIN")
    assert path.read_bytes() == b"\x7fELF..\0$ORIGIN" + b"\0" * 7 + b"\0tail"
    assert told == hashlib.sha256(path.read_bytes()).hexdigest()
