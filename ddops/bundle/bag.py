"""A BagIt bag (RFC 8493) with sha256 manifests, written and checked more strictly than it asks.

The RFC lets unknown files lie beside `data/`, and upper-case digests; here every byte of the
folder is accounted for, so that whatever was changed, added or taken away has a name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from ddops.spec.level import Level

DECLARATION: Final = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
MANIFEST: Final = "manifest-sha256.txt"
TAG_MANIFEST: Final = "tagmanifest-sha256.txt"
TAGS: Final = ("README.md", "bag-info.txt", "bagit.txt", MANIFEST)
"""What lies beside `data/`, with TAG_MANIFEST, and SIGNATURE when somebody has signed."""
SIGNATURE: Final = "signature.dsse.json"
"""Of the tag manifest, so in no manifest; `signature.py` knows what must stand in it."""

MOST_FILES: Final = 10_000
MOST_READ: Final = 6 << 20  # bytes; as JSON it may take 400 MB of memory to read
_READ: Final = re.compile(
    r"^(?:[^/]+|data/(?:bundle|run|weights|redactions|environment)\.json|data/units/.*\.service)$"
)
"""What is read whole; records are read a line at a time, all else is only hashed."""

Content = bytes | Path
"""Of a file: the bytes themselves, or where they lie when they may be many."""
_C = TypeVar("_C", bytes, Path)

SAFE_NAME: Final = re.compile(r"^(?!.*(?:^|/)\.\.?(?:/|$))[\w.-]+(?:/[\w.-]+)*$", re.ASCII)
_LINE: Final = re.compile(r"^([0-9a-f]{64})  (\S+)$")


@dataclass(frozen=True)
class Finding:
    """Why a bundle is not what it claims to be."""

    file: str
    reason: str
    level: Level = "L0"  # which of the questions has no for an answer

    def __str__(self) -> str:
        name = self.file if self.file.isprintable() else ascii(self.file)
        return f"{name}: {self.reason}"


def bagged(
    payload: Mapping[str, _C], readme: bytes, info: Mapping[str, str]
) -> dict[str, _C | bytes]:
    """All files of the bag; `payload` by name under `data/`, `info` for bag-info.txt."""
    data = {f"data/{name}": content for name, content in payload.items()}
    oxum = f"{sum(map(length, data.values()))}.{len(data)}"
    lines = sorted({**info, "Payload-Oxum": oxum}.items())
    tags = {
        "README.md": readme,
        "bag-info.txt": "".join(f"{key}: {value}\n" for key, value in lines).encode(),
        "bagit.txt": DECLARATION,
        MANIFEST: _manifest(digests(data)),
    }
    return {**data, **tags, TAG_MANIFEST: _manifest(digests(tags))}


def length(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def digests(files: Mapping[str, Content]) -> dict[str, str]:
    """sha256 by name. In threads, a file each: hashing lets go of the interpreter."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(_digest, files.values()), strict=True))


def unsafe(folder: Path) -> Iterator[Finding]:
    """What nobody should open: a link may lead to anything, and a long text fills the memory."""
    paths = list(islice(folder.rglob("*"), 2 * MOST_FILES))
    if len(paths) == 2 * MOST_FILES:
        yield Finding(folder.name, f"holds far more than {MOST_FILES} files")
        return
    for path in sorted(paths):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            yield Finding(name, "is not a regular file")
        elif path.stat().st_size > MOST_READ and _READ.match(name):
            yield Finding(name, f"is longer than {MOST_READ >> 20} MiB")


def check(folder: Path, *, hashed: bool = True) -> Iterator[Finding]:
    """Everything in `folder` that its manifests do not say, and the other way round.

    Not `hashed`: only which files there are. Where anything is `unsafe`, that is all that is told.
    """
    if dangers := list(unsafe(folder)):
        yield from dangers
        return
    present = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    for name, path in present.items():
        if path.is_dir() and not any(path.iterdir()):
            yield Finding(name, "is an empty folder, which no bundle has")
    files = {name: path for name, path in present.items() if path.is_file()}
    payload = {name: path for name, path in files.items() if name.startswith("data/")}
    beside = {*files} - {*payload, TAG_MANIFEST, SIGNATURE}
    tags = {name: files[name] for name in beside}
    yield from _declared(files)
    yield from _against(TAG_MANIFEST, files, tags, TAGS, hashed=hashed)
    yield from _against(MANIFEST, files, payload, (), hashed=hashed)
    yield from _oxum(files, payload)


def _declared(files: Mapping[str, Path]) -> Iterator[Finding]:
    """A missing bagit.txt is the tag manifest's to tell."""
    if "bagit.txt" in files and files["bagit.txt"].read_bytes() != DECLARATION:
        yield Finding("bagit.txt", "does not declare BagIt 1.0 in UTF-8")


def _against(
    manifest: str,
    files: Mapping[str, Path],
    present: Mapping[str, Path],
    needed: tuple[str, ...],
    *,
    hashed: bool,
) -> Iterator[Finding]:
    """`present` files against the lines of `manifest`, which must list at least `needed`."""
    if manifest not in files:
        yield Finding(manifest, "is missing")
        strays = sorted({*present} - {*needed}) if needed else []
        yield from (Finding(name, "was added: no bundle has such a file") for name in strays)
        return
    text = files[manifest].read_bytes()
    listed = {}
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), start=1):
        if (parts := _LINE.match(line)) and SAFE_NAME.match(parts[2]):
            listed[parts[2]] = parts[1]
        else:
            yield Finding(manifest, f"line {number} is not a sha256 and the name of a file")
    if text != _manifest(listed):
        yield Finding(manifest, "is not in the form ddops writes")
    there = [name for name in sorted(listed) if name in present] if hashed else []
    found = digests({name: present[name] for name in there})
    for name in sorted({*listed, *needed, *present}):
        if name not in present:
            yield Finding(name, "is missing")
        elif name not in listed:
            yield Finding(name, f"was added: {manifest} does not list it")
        elif name in found and found[name] != listed[name]:
            reason = f"is sha256 {found[name][:12]}, {manifest} says {listed[name][:12]}"
            yield Finding(name, f"was changed: it {reason}", "L1")


def _oxum(files: Mapping[str, Path], payload: Mapping[str, Path]) -> Iterator[Finding]:
    size = sum(path.stat().st_size for path in payload.values())
    line = f"Payload-Oxum: {size}.{len(payload)}"
    told = files["bag-info.txt"].read_bytes().splitlines() if "bag-info.txt" in files else None
    if told is not None and line.encode() not in told:
        yield Finding("bag-info.txt", f"does not say `{line}`, which is what lies in data/")


def _manifest(digests: Mapping[str, str]) -> bytes:
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def _digest(content: Content) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
