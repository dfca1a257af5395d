"""Sent to a machine as text, run by the Python of an environment: what the environment is made of.

`PYTHON -c TEXT` prints one JSON object. Bytecode is left out: it is made anew where it arrives.
Digests are remembered in the user's cache, so that a second look reads only what changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

NOTE = ".ddops-environment.json"
SMALL = 1 << 20  # bytes: texts are looked into, larger files only hashed
_SKIPPED = {"__pycache__", "node_modules"}
_READ = ("RECORD", "WHEEL", "direct_url.json", "top_level.txt", "pyvenv.cfg")
_SYSTEM = "/usr"  # an interpreter of the distribution stays where it is


def main() -> None:
    prefix, base = os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)
    site = os.path.realpath(sysconfig.get_path("purelib"))
    trees = [tree("", prefix, sys.prefix)]
    if base != _SYSTEM and not inside(base, prefix):
        trees.append(tree("outside/python", base, sys.base_prefix))
    trees += [tree(f"outside/{name}", root) for name, root in outside(site, prefix)]
    config = Path(prefix, "pyvenv.cfg")
    text = config.read_text("utf-8") if config.exists() else ""
    answer = {
        "prefix": prefix,
        "is_venv": bool(text),
        "system_site": bool(
            re.search(r"^include-system-site-packages\s*=\s*true", text, re.M | re.I)
        ),
        "python": platform.python_version(),
        "base": base,
        "site": os.path.relpath(site, prefix),
        "arch": platform.machine(),
        "glibc": platform.libc_ver()[1],
        "zstd": shutil.which("zstd") is not None,
        "cpu": cpu_flags(),
        "trees": trees,
        **look(trees, os.path.relpath(site, prefix)),
    }
    sys.stdout.write(json.dumps(answer))


def look(trees: list[dict[str, Any]], site: str) -> dict[str, list[Any]]:
    """Every file and link, in the order of their names."""
    names = [spelling for one in trees for spelling in one["spellings"]]
    any_name = b"|".join(re.escape(os.fsencode(name)) for name in names)
    found = Found(re.compile(b"(?:" + any_name + rb")(?![\w.-])"), site)
    files = []
    for one in trees:
        for at, path in walk(one, os.path.dirname(site)):
            if os.path.islink(path):
                found.answer["links"].append({"path": at, "target": os.readlink(path)})
            else:
                files.append((at, path, os.stat(path)))
    with Memory(names) as memory, ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for row, seen in pool.map(lambda row: (row, memory.look(row[1], row[2], found)), files):
            found.add(row, seen)
    return found.answer


def tree(at: str, source: str, *more: str) -> dict[str, Any]:
    """The longest spelling first: one may begin with another."""
    spellings = sorted({source, *more}, key=len, reverse=True)
    return {"at": at, "source": source, "spellings": spellings}


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def outside(site: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Folders that are imported from but lie elsewhere: editable projects, lines of .pth files."""
    wanted: dict[str, str] = {}
    for info in Path(site).glob("*.dist-info/direct_url.json"):
        told = json.loads(info.read_text("utf-8"))
        if told.get("dir_info", {}).get("editable"):
            wanted[os.path.realpath(unquote(urlsplit(told["url"]).path))] = info.parent.name
    for file in Path(site).glob("*.pth"):
        for line in file.read_text("utf-8", "replace").splitlines():
            path = os.path.realpath(os.path.join(site, line.strip()))
            if line.strip() and not line.startswith(("import ", "#")) and os.path.isdir(path):
                wanted.setdefault(path, os.path.basename(path))
    taken: set[str] = set()
    for root in sorted(wanted):
        if inside(root, prefix) or any(inside(root, up) for up in wanted if up != root):
            continue
        name = wanted[root].split("-")[0].lower()
        while name in taken or name == "python":
            name += "_"
        taken.add(name)
        yield name, root


def walk(one: dict[str, Any], stdlib: str) -> Iterator[tuple[str, str]]:
    at, top = one["at"], one["source"]
    ignored = git_ignored(top) if at and at != "outside/python" else set()
    for folder, folders, names in os.walk(top):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED and name not in links and not skipped(at, folder, name)
        )
        for name in sorted(names + links):
            path = os.path.join(folder, name)
            below = os.path.relpath(path, top)
            if name.endswith(".pyc") or name == NOTE or path in ignored:
                continue
            if not os.path.islink(path) and not os.path.isfile(path):
                continue  # a socket or a pipe
            if at != "outside/python" or of_interpreter(below, stdlib):
                yield os.path.join(at, below), path


def skipped(at: str, folder: str, name: str) -> bool:
    """Of a project: what it keeps for itself, and environments."""
    if not at or at == "outside/python":
        return False
    return name.startswith(".") or os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))


def of_interpreter(below: str, stdlib: str) -> bool:
    """Program, libraries, headers; neither the packages of that interpreter nor its own tests."""
    folder, name = os.path.split(below)
    if below.startswith(stdlib + "/"):
        rest = below[len(stdlib) + 1 :]
        return not rest.startswith(("site-packages/", "test/")) and not name.endswith(".a")
    if folder == "bin":
        return name.startswith("python")
    return (folder == "lib" and ".so" in name) or below.startswith("include/python")


def git_ignored(top: str) -> set[str]:
    """What git leaves out, except compiled modules: they are built in place."""
    git = ("git", "-c", "safe.directory=*", "-C", top)
    listing = (*git, "ls-files", "-z", "--others", "--ignored", "--exclude-standard")
    try:
        said = subprocess.run(listing, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    except OSError:
        return set()
    names = [os.fsdecode(name) for name in said.split(b"\0") if name]
    return {os.path.join(top, name) for name in names if not name.endswith(".so")}


class Found:
    """Gathers what is told about each file."""

    def __init__(self, names: re.Pattern[bytes], site: str) -> None:
        self.names, self.site = names, site
        kinds = ("files", "links", "binaries", "texts", "mentions")
        self.answer: dict[str, list[Any]] = {kind: [] for kind in kinds}

    def add(self, row: tuple[str, str, os.stat_result], seen: list[Any]) -> None:
        (at, path, stat), (sha256, named, glibc, rpath) = row, seen
        times = {"mode": stat.st_mode & 0o7777, "mtime_ns": stat.st_mtime_ns}
        self.answer["files"].append({"path": at, "size": stat.st_size, "sha256": sha256, **times})
        if glibc or rpath:
            self.answer["binaries"].append({"path": at, "glibc": glibc, "rpath": rpath})
        told = os.path.basename(at) in _READ or at == f"{self.site}/torch/version.py"
        text = utf8(path) if told or (named and movable(at, self.site)) else None
        if text is not None:
            self.answer["texts"].append({"path": at, "text": text})
        elif named:
            self.answer["mentions"].append(at)


def utf8(path: str) -> str | None:
    """With its line ends as they are."""
    try:
        return Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None


def movable(at: str, site: str) -> bool:
    """Made when the environment was, of the place where it was."""
    folder, name = os.path.split(at)
    return (
        folder in ("bin", site, "outside/python/bin")
        or folder.endswith(".dist-info")
        or name.startswith("_sysconfigdata")
        or name.endswith(".pc")
    )


class Memory:
    """What was seen of a file counts until its size or one of its times changes."""

    def __init__(self, names: list[str]) -> None:
        top = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
        self.path = Path(top, "ddops", "environments", f"{key}.json")
        self.seen: dict[str, list[Any]] = {}

    def __enter__(self) -> Memory:
        try:
            self.known = json.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError):
            self.known = {}
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = self.path.with_suffix(f".{os.getpid()}")
            new.write_text(json.dumps(self.seen), "utf-8")
            new.replace(self.path)
        except OSError:
            return  # a home that cannot be written: the next look reads everything again

    def look(self, path: str, stat: os.stat_result, found: Found) -> list[Any]:
        when = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
        known = self.known.get(path)
        if not known or known[0] != when:
            known = [when, read(path, stat.st_size, found.names)]
        self.seen[path] = known
        told: list[Any] = known[1]
        return told


def read(path: str, size: int, names: re.Pattern[bytes]) -> list[Any]:
    """[sha256, whether it is a text that names the source, newest glibc, absolute rpath]."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        first = file.read(SMALL)
        digest.update(first)
        for chunk in iter(lambda: file.read(SMALL), b""):
            digest.update(chunk)
    if first[:6] == b"\x7fELF\x02\x01":
        return [digest.hexdigest(), False, *elf(path)]
    text = size <= SMALL and b"\0" not in first
    return [digest.hexdigest(), bool(text and names.search(first)), None, None]


def elf(path: str) -> tuple[str | None, str | None]:
    """Of a 64 bit little-endian file: the newest glibc it asks for, and an absolute rpath.

    Not pyelftools: this runs on machines where nothing may be installed.
    """
    with open(path, "rb") as file:
        start, size, count = struct.unpack("<40xQ10xHH", file.read(62))
        file.seek(start)
        table = file.read(size * count)
        if not size or len(table) < size * count:
            return None, None
        heads = [struct.unpack_from("<4xI16xQQI", table, i * size) for i in range(count)]

        def content(index: int) -> bytes:
            file.seek(heads[index][1])
            return file.read(heads[index][2])

        glibc, rpath = None, None
        for index, (kind, _, _, linked) in enumerate(heads):
            if kind == 0x6FFFFFFE:  # .gnu.version_r
                asked = re.findall(rb"GLIBC_(\d+)\.(\d+)", content(linked))
                newest = max(((int(a), int(b)) for a, b in asked), default=None)
                glibc = f"{newest[0]}.{newest[1]}" if newest else None
            elif kind == 6:  # .dynamic
                names = content(linked)
                for tag, value in struct.iter_unpack("<qQ", content(index)):
                    if tag in (15, 29):  # DT_RPATH, DT_RUNPATH
                        rpath = os.fsdecode(names[value : names.index(b"\0", value)])
    absolute = rpath and any(part.startswith("/") for part in rpath.split(":"))
    return glibc, rpath if absolute else None


def cpu_flags() -> str:
    """The line of /proc/cpuinfo that lists them."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return ""
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.M)
    return line[1] if line else ""


if __name__ == "__main__":
    main()
