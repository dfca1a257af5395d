"""What the packages of an environment say about themselves, and which of their files were patched.

Every wheel leaves a RECORD: one row for each file it installed, with its hash.
"""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from posixpath import dirname, normpath

from ddops.spec.environment import File, Package, Patch

_PORTABLE = re.compile(r"^Tag: \S+-(?:any|manylinux\w+|musllinux\w+)$", re.M)


@dataclass(frozen=True)
class Installed:
    packages: tuple[Package, ...]
    patches: tuple[Patch, ...]


def read(files: tuple[File, ...], texts: Mapping[str, str], site: str) -> Installed:
    """`texts` holds the RECORD and WHEEL of every package; `site` is its site-packages."""
    there = {file.path: file.sha256 for file in files}
    packages, patches = [], []
    owned: set[str] = set()
    for path in sorted(texts):
        info = dirname(path)
        if not path.endswith(".dist-info/RECORD") or dirname(info) != site:
            continue  # a package within a package keeps its papers too
        name, version = _name(info)
        rows = dict(_rows(texts[path], site))
        owned |= rows.keys()
        patches += list(_patches(name, rows, there))
        packages.append(
            Package(
                name=name,
                version=version,
                record=path,
                built_here=_built_here(rows, texts.get(f"{info}/WHEEL", "")),
                modules=tuple(sorted(_modules(rows, site))),
            )
        )
    strays = sorted(path for path in there.keys() - owned if path.startswith(f"{site}/"))
    patches += [_added(path, there[path]) for path in strays]
    return Installed(tuple(packages), tuple(patches))


def record_hash(sha256: str) -> str:
    """As a RECORD writes it: urlsafe base64 without padding."""
    return base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode().rstrip("=")


def _name(info: str) -> tuple[str, str]:
    name, _, version = info.rsplit("/", 1)[-1].removesuffix(".dist-info").partition("-")
    return name.lower().replace("_", "-"), version


def _rows(record: str, site: str) -> Iterator[tuple[str, str]]:
    """(path below the environment, hash or "") of every file; bytecode does not travel."""
    for row in csv.reader(record.splitlines()):
        if row and not row[0].endswith(".pyc"):
            path = row[0] if row[0].startswith("/") else normpath(f"{site}/{row[0]}")
            yield path, row[1] if len(row) > 1 else ""


def _patches(package: str, rows: Mapping[str, str], there: Mapping[str, str]) -> Iterator[Patch]:
    for path, told in rows.items():
        kind, _, digest = told.partition("=")
        if kind != "sha256" or path.startswith(("/", "..")):
            continue
        found = there.get(path)
        if found is None or record_hash(found) != digest:
            yield Patch(
                package=package,
                path=path,
                change="changed" if found else "removed",
                installed=base64.urlsafe_b64decode(f"{digest}=").hex(),
                found=found,
            )


def _added(path: str, sha256: str) -> Patch:
    package = path.split("site-packages/", 1)[-1].split("/")[0]
    return Patch(package=package, path=path, change="added", installed=None, found=sha256)


def _built_here(rows: Mapping[str, str], wheel: str) -> bool:
    compiled = any(re.search(r"\.so(\.\d+)*$", path) for path in rows)
    return compiled and not _PORTABLE.search(wheel)


def _modules(rows: Mapping[str, str], site: str) -> set[str]:
    """Packages with an `__init__.py`, and single modules, directly in site-packages."""
    found = set()
    for path in rows:
        below = path.removeprefix(f"{site}/")
        top, _, rest = below.partition("/")
        if rest == "__init__.py":
            found.add(top)
        elif not rest and re.fullmatch(r"[A-Za-z]\w*(?:\.py|\.[\w-]*\.so|\.so)", top):
            found.add(top.split(".")[0])
    return found
