"""Single changes to a bundle, as accident, hand and forger make them.

Each takes a folder or an archive of its own, changes one thing, and names the file that must be
told. Those that forge make every hash right again.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from ddops.bundle import archive, bag


@dataclass(frozen=True)
class Scene:
    """What a change may use besides its target."""

    dice: random.Random
    foreign: tuple[bytes, ...]  # signatures of another bundle, and of somebody not trusted


Change = Callable[[Path, Scene], str]


def flip(target: Path, scene: Scene) -> str:
    path = _some(target, scene)
    _flip(path, scene.dice)
    return path.name


def cut(target: Path, scene: Scene) -> str:
    path = _some(target, scene)
    content = path.read_bytes()
    path.write_bytes(content[: scene.dice.randrange(len(content))])
    return path.name


def grow(target: Path, scene: Scene) -> str:
    path = _some(target, scene)
    path.write_bytes(path.read_bytes() + scene.dice.choice([b"\n", b" ", b"\0"]))
    return path.name


def drop(target: Path, scene: Scene) -> str:
    path = _some(target, scene)
    path.unlink()
    return path.name


def rename(target: Path, scene: Scene) -> str:
    path = _some(target, scene)
    return path.rename(path.with_name(f"a{scene.dice.randrange(10**6)}-{path.name}")).name


def swap_names(target: Path, scene: Scene) -> str:
    """Two files that are not the same change places."""
    one = other = _some(target, scene)
    while one.read_bytes() == other.read_bytes():
        other = _some(target, scene)
    one.rename(target / "between")
    other.rename(one)
    (target / "between").rename(other)
    return one.name


def add(target: Path, scene: Scene) -> str:
    path = _some(target, scene)
    new = path.with_name(f"{scene.dice.randrange(10**6)}.json")
    shutil.copy(path, new)
    return new.name


def edit_digit(target: Path, scene: Scene) -> str:
    """A digit somewhere becomes another one, as a hand would do it."""
    path = _some(target, scene)
    content = bytearray(path.read_bytes())
    places = [place for place, char in enumerate(content) if char in b"12345678"]
    content[scene.dice.choice(places or [0])] = ord("9")
    path.write_bytes(content)
    return path.name


def edit_aggregate(target: Path, scene: Scene) -> str:
    """A number of a record's metrics, with every hash made right."""
    records = [path for path in (target / "data" / "records").glob("*.json") if _metrics(path)]
    path = scene.dice.choice(sorted(records))
    text = path.read_text("utf-8")
    metrics = _metrics(path)
    *above, last = scene.dice.choice(_numbers(metrics))
    place: Any = metrics
    for key in above:
        place = place[key]
    place[last] += 1
    start = text.index('"metrics":') + len('"metrics":')
    _, length = json.JSONDecoder().raw_decode(text[start:])
    path.write_text(text[:start] + json.dumps(metrics) + text[start + length :], "utf-8")
    _rehash(target, path)
    return path.name


def edit_unit(target: Path, scene: Scene) -> str:
    """A unit as it is shown, with every hash made right."""
    path = scene.dice.choice(sorted((target / "data" / "units").glob("*.service")))
    path.write_text(path.read_text("utf-8").replace("--mode", "--mood"), "utf-8")
    _rehash(target, path)
    return path.name


def swap_signature(target: Path, scene: Scene) -> str:
    (target / bag.SIGNATURE).write_bytes(scene.dice.choice(scene.foreign))
    return bag.SIGNATURE


def flip_archive(target: Path, scene: Scene) -> str:
    _flip(target, scene.dice)
    return target.name


def recompress(target: Path, scene: Scene) -> str:
    """As the `zstd` program does it."""
    level = scene.dice.randrange(1, 10)
    target.write_bytes(zstandard.ZstdCompressor(level=level).compress(_tar(target)))
    return target.name


def reorder(target: Path, scene: Scene) -> str:
    """The members in another order, under a seal that is right."""
    with tarfile.open(fileobj=io.BytesIO(_tar(target))) as tar:
        members = [(info, tar.extractfile(info)) for info in tar]
        contents = [(info, file.read() if file else b"") for info, file in members]
    place = scene.dice.randrange(len(contents) - 1)
    contents[place : place + 2] = reversed(contents[place : place + 2])
    written = b""
    for info, content in contents:
        header = info.tobuf(tarfile.USTAR_FORMAT)
        written += header + content + bytes(-len(content) % tarfile.BLOCKSIZE)
    packed = archive.compressor().compress(written + bytes(2 * tarfile.BLOCKSIZE))
    target.write_bytes(packed + archive.seal(hashlib.sha256(packed).digest()))
    return target.name


OF_FOLDERS: tuple[Change, ...] = (
    flip,
    cut,
    grow,
    drop,
    rename,
    swap_names,
    add,
    edit_digit,
    edit_aggregate,
    edit_unit,
    swap_signature,
)
OF_ARCHIVES: tuple[Change, ...] = (flip_archive, recompress, reorder)


def _files(target: Path) -> list[Path]:
    return sorted(path for path in target.rglob("*") if path.is_file())


def _some(target: Path, scene: Scene) -> Path:
    """The signature more often than the others, which are many."""
    return scene.dice.choice([*_files(target), *[target / bag.SIGNATURE] * 4])


def _flip(path: Path, dice: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def _metrics(path: Path) -> Any:
    return json.loads(path.read_bytes())["metrics"]


def _numbers(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, inner in pairs for found in _numbers(inner, (*path, key))]
    return [path] if isinstance(value, int | float) else []


def _rehash(target: Path, path: Path) -> None:
    """What a forger with an editor and `sha256sum` does."""
    data = _files(target / "data")
    oxum = f"Payload-Oxum: {sum(each.stat().st_size for each in data)}.{len(data)}"
    info = target / "bag-info.txt"
    lines = info.read_text("utf-8").splitlines()
    kept = [oxum if line.startswith("Payload-Oxum") else line for line in lines]
    info.write_text("".join(f"{line}\n" for line in kept), "utf-8")
    for manifest, files in (
        (bag.MANIFEST, [path]),
        (bag.TAG_MANIFEST, [info, target / bag.MANIFEST]),
    ):
        listed = target / manifest
        text = listed.read_text("utf-8")
        for file in files:
            name = file.relative_to(target).as_posix()
            (line,) = (each for each in text.splitlines() if each.endswith(f"  {name}"))
            text = text.replace(line, f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}")
        listed.write_text(text, "utf-8")


def _tar(target: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(target.read_bytes())
