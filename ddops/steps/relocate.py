"""What has to change in an environment so that it works in another folder. Pure.

Shebangs, `pyvenv.cfg`, `.pth` lines, finders and papers of editable projects, absolute links, the
RECORD rows of what was rewritten, and rpaths that lead into a folder which moves along.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import re
from io import StringIO
from posixpath import dirname, normpath, relpath

from ddops.spec.base import Word
from ddops.spec.environment import Binary, File, Link, Manifest, Text, Tree


class Rpath(Word):
    path: str
    old: str
    new: str  # not longer than the old one: it is written over it


class Move(Word):
    """The changes, and nothing else: the same for the same environment and folder."""

    texts: dict[str, str]  # path → new content
    links: tuple[Link, ...]  # all of them
    rpaths: tuple[Rpath, ...]


def move(seen: Manifest, prefix: str) -> Move:
    """`prefix` is the folder where the environment will lie."""
    texts = {
        one.path: new
        for one in seen.texts
        if (new := _text(one, seen.trees, prefix)) is not None and new != one.text
    }
    texts |= _records(seen, texts)
    return Move(
        texts=texts,
        links=tuple(_link(link, seen.trees, prefix) for link in seen.links),
        rpaths=tuple(r for one in seen.binaries if (r := _rpath(one, seen.trees))),
    )


def moved(seen: Manifest, prefix: str, change: Move, digests: dict[str, str]) -> Manifest:
    """The environment as it lies there. `digests` are of the binaries whose rpath was turned."""
    return seen.model_copy(
        update={
            "origin": seen.identity,
            "prefix": prefix,
            "base": rewritten(seen.base, seen.trees, prefix),
            "trees": (Tree(at="", source=prefix, spellings=(prefix,)),),
            "files": tuple(_file(file, change, digests) for file in seen.files),
            "links": change.links,
            "binaries": tuple(_binary(one, change) for one in seen.binaries),
            "texts": (),
        }
    )


def rewritten(text: str, trees: tuple[Tree, ...], prefix: str) -> str:
    """Every folder of the source replaced by its new place; longer names win."""
    places = {
        name: normpath(f"{prefix}/{tree.at}")
        for tree in trees
        for name in (tree.source, *tree.spellings)
    }
    names = "|".join(re.escape(name) for name in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?:{names})(?![\w.-])", lambda found: places[found[0]], text)


def _text(one: Text, trees: tuple[Tree, ...], prefix: str) -> str | None:
    if one.path.endswith("/RECORD"):
        return None  # follows from the other files
    if one.path == "pyvenv.cfg":
        return _config(rewritten(one.text, trees, prefix))
    return rewritten(one.text, trees, prefix)


def _config(text: str) -> str:
    """How the environment was made is no longer true; nothing reads it."""
    kept = [line for line in text.splitlines() if not re.match(r"(executable|command)\s*=", line)]
    return "\n".join(kept) + "\n"


def _records(seen: Manifest, texts: dict[str, str]) -> dict[str, str]:
    """RECORD files whose rows no longer say what was installed."""
    told = {one.path: one.text for one in seen.texts}
    found = {}
    for package in seen.packages:
        rows = list(csv.reader(told.get(package.record, "").splitlines()))
        new = [_row(row, normpath(f"{seen.site}/{row[0]}"), texts, told) for row in rows if row]
        if new != rows:
            out, ends = StringIO(), "\r\n" if "\r\n" in told[package.record] else "\n"
            csv.writer(out, lineterminator=ends).writerows(new)
            found[package.record] = out.getvalue()
    return found


def _row(row: list[str], path: str, texts: dict[str, str], told: dict[str, str]) -> list[str]:
    """A file that was patched before keeps the wrong hash: it stays visible as a patch."""
    if path not in texts or len(row) < 2 or row[1] != f"sha256={_record_hash(told[path])}":
        return row
    return [row[0], f"sha256={_record_hash(texts[path])}", str(len(texts[path].encode()))]


def _record_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _link(link: Link, trees: tuple[Tree, ...], prefix: str) -> Link:
    if not link.target.startswith("/"):
        return link
    return Link(path=link.path, target=rewritten(link.target, trees, prefix))


def _rpath(one: Binary, trees: tuple[Tree, ...]) -> Rpath | None:
    """Relative to the file itself, where the folder travels with it and the new text fits.

    The interpreter's own modules need none: the program has loaded its library before them.
    """
    if one.rpath is None or one.path.startswith("outside/python/lib/"):
        return None
    new = ":".join(_part(part, one.path, trees) for part in one.rpath.split(":"))
    fits = new != one.rpath and len(new) <= len(one.rpath)
    return Rpath(path=one.path, old=one.rpath, new=new) if fits else None


def _part(part: str, path: str, trees: tuple[Tree, ...]) -> str:
    for tree in sorted(trees, key=lambda tree: len(tree.source), reverse=True):
        for name in tree.spellings:
            if part == name or part.startswith(f"{name}/"):
                inside = normpath(f"/{tree.at}/{part.removeprefix(name)}")
                return f"$ORIGIN/{relpath(inside, f'/{dirname(path)}')}".removesuffix("/.")
    return part


def _file(file: File, change: Move, digests: dict[str, str]) -> File:
    if file.path in change.texts:
        data = change.texts[file.path].encode()
        sha256 = hashlib.sha256(data).hexdigest()
        return file.model_copy(update={"size": len(data), "sha256": sha256})
    if file.path in digests:
        return file.model_copy(update={"sha256": digests[file.path]})
    return file


def _binary(one: Binary, change: Move) -> Binary:
    turned = any(rpath.path == one.path for rpath in change.rpaths)
    return one.model_copy(update={"rpath": None}) if turned else one
