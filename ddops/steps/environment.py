"""Whether an environment can live on a box, and how what the box lacks is sent. Pure."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence

from ddops.spec.base import Word
from ddops.spec.environment import Landing, Manifest, Piece
from ddops.spec.observed import Gpu, System

PIECE = 16_000_000  # bytes: what one connection may have to send again
_WORTH_A_CONNECTION = 2_000_000  # bytes: one window of OpenSSH
HEADROOM = 500_000_000  # bytes that must stay free: bytecode, compiled kernels, logs
_DRIVERS = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
"""CUDA major → the oldest driver that runs its minor versions (NVIDIA, CUDA compatibility)."""

_ENGINE = (
    *("torch", "triton", "numpy", "safetensors", "tokenizers", "transformers"),
    *("ddops", "ddtree", "sglang", "vllm", "flashinfer", "flash_attn", "deep_gemm"),
)
"""What an engine is made of, where it is there."""

Gap = tuple[str, list[tuple[int, int]]]
"""The sha256 of a file, and (offset, length) of what the box lacks of it."""


def unmovable(seen: Manifest) -> list[str]:
    """Why the environment cannot be taken from where it is."""
    if not seen.is_venv:
        return [f"{seen.prefix} is no virtual environment: what belongs to it cannot be told"]
    if seen.system_site:
        return ["it also sees the packages of the system's Python, which would stay behind"]
    return []


class Reason(Word):
    what: str
    fix: str | None = None


def unfit(seen: Manifest, landing: Landing, machine: System, gpus: tuple[Gpu, ...]) -> list[Reason]:
    """Why it would not run there. Every reason, not the first."""
    reasons = []
    if machine.arch != seen.arch:
        reasons.append(Reason(what=f"it is made for {seen.arch}, the box is {machine.arch}"))
    reasons += _older_glibc(seen, machine.glibc)
    reasons += _missing_flags(seen, machine)
    reasons += _old_driver(seen, gpus)
    wanted = f"python{_minor(seen.python)}"
    if seen.base == "/usr" and _minor(seen.python) not in landing.minors:
        what = f"it runs on the distribution's {wanted}, which the box lacks"
        reasons.append(Reason(what=what, fix=f"`apt-get install {wanted}` on the box"))
    if landing.python is None:
        what = "the box has no `python3` to unpack with"
        reasons.append(Reason(what=what, fix="`apt-get install python3` on the box"))
    if landing.occupied:
        what = "there is a `venv` in the state folder that ddops did not make"
        reasons.append(Reason(what=what, fix="move it away, or set another `state_dir`"))
    return reasons


def imports(seen: Manifest) -> list[str]:
    """What has to be importable: the engine's parts, and whatever was patched or built by hand."""
    paths = {file.path for file in seen.files}
    touched = {patch.package for patch in seen.patches}
    found = {
        module
        for package in seen.packages
        if package.built_here or package.name in touched
        for module in package.modules
    }
    at = re.compile(
        rf"(?:{re.escape(seen.site)}|outside/[^/]+(?:/\w+)?)/({'|'.join(_ENGINE)})/__init__.py"
    )
    found |= {match[1] for path in paths if (match := at.fullmatch(path))}
    return sorted(found - {"pip", "setuptools"})


def pieces(seen: Manifest, lacking: Sequence[Gap]) -> list[Piece]:
    """What has to be sent, cut so that a broken connection costs little."""
    places = {tree.at: tree.source for tree in seen.trees}
    files = {file.sha256: file for file in seen.files}
    found = []
    for sha256, gaps in lacking:
        file = files[sha256]
        at = max((at for at in places if _below(file.path, at)), key=len)
        source = f"{places[at]}/{file.path.removeprefix(at).lstrip('/')}"
        for start, length in gaps:
            for offset in range(start, start + length, PIECE):
                found.append(
                    Piece(
                        source=source,
                        sha256=sha256,
                        size=file.size,
                        offset=offset,
                        length=min(PIECE, start + length - offset),
                    )
                )
    return found


def shards(wanted: Sequence[Piece], connections: int) -> list[list[Piece]]:
    """As many bytes for each connection: the largest piece goes where least is yet.

    No more connections than there is work for: to open one takes as long as to send a little.
    """
    needed = 1 + sum(piece.length for piece in wanted) // _WORTH_A_CONNECTION
    number = min(connections, needed)
    heap: list[tuple[int, int, list[Piece]]] = [(0, i, []) for i in range(number)]
    for piece in sorted(wanted, key=lambda piece: piece.length, reverse=True):
        size, i, shard = heap[0]
        shard.append(piece)
        heapq.heapreplace(heap, (size + piece.length, i, shard))
    return [shard for _, _, shard in sorted(heap, key=lambda one: one[1]) if shard]


def differing(was: Manifest, now: Manifest) -> list[str]:
    """The files that are not the same in both, each with what became of it."""
    before = {file.path: file.sha256 for file in was.files}
    after = {file.path: file.sha256 for file in now.files}
    before |= {link.path: link.target for link in was.links}
    after |= {link.path: link.target for link in now.links}
    return [
        f"{_became(before.get(path), after.get(path))}: {path}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def too_large(wanted: Sequence[Piece], free: int) -> Reason | None:
    need = sum(piece.length for piece in wanted) + HEADROOM
    if need <= free:
        return None
    return Reason(
        what=f"it takes {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free",
        fix="free some space on the box, or set another `state_dir`",
    )


def _became(before: str | None, after: str | None) -> str:
    return "added" if before is None else "removed" if after is None else "changed"


def _below(path: str, at: str) -> bool:
    return not at or path.startswith(f"{at}/")


def _older_glibc(seen: Manifest, there: str | None) -> list[Reason]:
    asking = [one for one in seen.binaries if one.glibc]
    if not asking or there is None:
        return []
    newest = max(asking, key=lambda one: _numbers(one.glibc or "0"))
    if _numbers(newest.glibc or "0") <= _numbers(there):
        return []
    what = f"{newest.path} needs glibc {newest.glibc}, the box has {there}"
    return [Reason(what=what, fix="take a box with a newer distribution, or an older source")]


def _missing_flags(seen: Manifest, machine: System) -> list[Reason]:
    """Portable wheels look at the processor when they run; what was built here may not."""
    built = [package.name for package in seen.packages if package.built_here]
    missing = [flag for flag in seen.cpu_flags if flag not in machine.cpu_flags]
    if not built or not missing:
        return []
    names = ", ".join(built)
    what = f"{names}: built on a processor with {', '.join(missing)}, which the box's lacks"
    return [Reason(what=what, fix="install a portable wheel of it at the source")]


def _old_driver(seen: Manifest, gpus: tuple[Gpu, ...]) -> list[Reason]:
    if seen.cuda is None or not gpus:
        return []
    oldest = _DRIVERS.get(_numbers(seen.cuda)[0])
    if oldest is None or _numbers(gpus[0].driver) >= oldest:
        return []
    wanted = ".".join(str(number) for number in oldest)
    what = f"torch is built for CUDA {seen.cuda}: driver {wanted} or newer, not {gpus[0].driver}"
    return [Reason(what=what, fix=f"install an NVIDIA driver {wanted} or newer on the box")]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
