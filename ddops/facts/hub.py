"""What a hub repository holds at a pinned revision: names, sizes, digests, addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddops.errors import WeightsError
from ddops.host import hub
from ddops.spec.observed import Offer, Offered
from ddops.spec.source import Hub

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

_OTHER_FORMATS = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".ot")
_NO_WEIGHTS = (".md", ".png", ".jpg", ".gitattributes", ".gitignore")


def ask(source: Hub, text: str) -> Offer:
    """`text` is the source as the inventory has it. Raises `WeightsError`."""
    info = hub.listing(source.repo, source.revision)
    commit = info.sha or source.revision
    files = [_offered(source.repo, one) for one in info.siblings or ()]
    safe = any(file.name.endswith(".safetensors") for file in files)
    dropped = (*_NO_WEIGHTS, *(_OTHER_FORMATS if safe else ()))
    kept = tuple(file for file in files if not file.name.endswith(dropped))
    if not kept:
        raise WeightsError(
            f"{source.repo} at {source.revision} holds no weights",
            hint="check the name and the revision after the `@`",
        )
    _must_give(source.repo, commit, kept[0].name)
    return Offer(source=text, commit=commit, files=kept)


def _must_give(repo: str, commit: str, name: str) -> None:
    """A gated repository shows its list to everybody: a refusal is better heard before the plan."""
    url = hub.address(repo, commit, name)
    hub.patiently(name, lambda: hub.location(url))


def _offered(repo: str, file: RepoSibling) -> Offered:
    name = file.rfilename
    if name.startswith("/") or ".." in name.split("/") or not _plain(name):
        raise WeightsError(
            f"{repo} holds a file named {name!r}: no name for a file here",
            hint="use another repository",
        )
    return Offered(
        name=name,
        url=None,  # asked for when it is fetched: it does not last
        size=file.size,
        sha256=file.lfs.sha256 if file.lfs else None,
        blob=None if file.lfs else file.blob_id,
    )


def _plain(name: str) -> bool:
    return name.isprintable() and "\\" not in name
