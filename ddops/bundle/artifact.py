"""A bundle as an artifact of an OCI registry: one layer, which is the archive. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from ddops.spec.bundle import BundleInfo
from ddops.spec.shelf import BUNDLE_TYPE, LAYER_TYPE, MANIFEST_TYPE, Blob

EMPTY_TYPE: Final = "application/vnd.oci.empty.v1+json"
EMPTY: Final = b"{}"
"""The config of an artifact that has none, as the image specification 1.1 wants it."""

_SHA256: Final = re.compile(r"sha256:[0-9a-f]{64}")


class _Descriptor(BaseModel):
    """Whoever pushed may have said more."""

    mediaType: str
    digest: str
    size: int


class _Manifest(BaseModel):
    layers: tuple[_Descriptor, ...]


def manifest(info: BundleInfo, archive: Blob, file: str) -> bytes:
    """Without a date of its own: the same bundle has the same manifest."""
    annotations = {
        "org.opencontainers.image.created": info.created,
        "org.opencontainers.image.title": info.name,
        "org.opencontainers.image.version": info.fingerprint[:12],
    }
    layer = _described(LAYER_TYPE, archive)
    written: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": BUNDLE_TYPE,
        "config": _described(EMPTY_TYPE, blob(EMPTY)),
        "layers": [{**layer, "annotations": {"org.opencontainers.image.title": file}}],
        "annotations": annotations,
    }
    return json.dumps(written, sort_keys=True, separators=(",", ":")).encode()


def archive_of(content: bytes) -> Blob:
    """The layer that is a bundle. Raises `ValueError` when it is no artifact of ours."""
    try:
        found = _Manifest.model_validate_json(content)
    except ValidationError as error:
        raise ValueError(f"its manifest cannot be read: {error.errors()[0]['msg']}") from None
    ours = [layer for layer in found.layers if layer.mediaType == LAYER_TYPE]
    if len(ours) != 1:
        kinds = ", ".join(layer.mediaType for layer in found.layers) or "nothing"
        raise ValueError(f"it holds {kinds}, and not one {LAYER_TYPE}")
    if not _SHA256.fullmatch(ours[0].digest):
        raise ValueError(f"its digest is {ours[0].digest!a}, and not a sha256")
    return Blob(digest=ours[0].digest, size=ours[0].size)


def blob(content: bytes) -> Blob:
    return Blob(digest=f"sha256:{hashlib.sha256(content).hexdigest()}", size=len(content))


def _described(kind: str, what: Blob) -> dict[str, Any]:
    return {"mediaType": kind, "digest": what.digest, "size": what.size}
