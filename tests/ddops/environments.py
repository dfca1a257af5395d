"""An environment as it was looked at, and what a box offers, with what a test changes."""

from __future__ import annotations

from typing import Any

from ddops.spec.environment import Landing, Manifest

SITE = "lib/python3.11/site-packages"


def file(path: str, sha256: str = "a" * 64, size: int = 10) -> dict[str, Any]:
    return {"path": path, "size": size, "mode": 0o644, "mtime_ns": 1, "sha256": sha256}


def tree(at: str, source: str, *more: str) -> dict[str, Any]:
    return {"at": at, "source": source, "spellings": (source, *more)}


def manifest(**changes: Any) -> Manifest:
    told: dict[str, Any] = {
        "schema_version": 1,
        "origin": None,
        "prefix": "/old/venv",
        "is_venv": True,
        "system_site": False,
        "python": "3.11.7",
        "base": "/opt/python",
        "site": SITE,
        "arch": "x86_64",
        "glibc": "2.36",
        "cpu_flags": ("avx2", "avx512f"),
        "zstd": True,
        "cuda": None,
        "trees": (tree("", "/old/venv"), tree("outside/python", "/opt/python")),
        "files": (),
        "links": (),
        "binaries": (),
        "texts": (),
        "mentions": (),
        "packages": (),
        "patches": (),
    }
    return Manifest.model_validate({**told, **changes})


def landing(**changes: Any) -> Landing:
    told: dict[str, Any] = {
        "python": "3.10.2",
        "minors": ("3.10",),
        "zstd": True,
        "points_to": None,
        "occupied": False,
        "present": (),
    }
    return Landing.model_validate({**told, **changes})
