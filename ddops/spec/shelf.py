"""Where bundles are kept for others: a folder, or a repository of an OCI registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from ddops.spec.base import Word

SCHEME: Final = "oci://"
FORMS: Final = "a folder, or `oci://HOST[:PORT]/REPOSITORY`"

_HOST: Final = r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]"
_REPOSITORY: Final = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
_ADDRESS: Final = re.compile(rf"oci://(?P<host>{_HOST})(?P<port>:\d+)?/(?P<repo>{_REPOSITORY})")
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

BUNDLE_TYPE: Final = "application/vnd.ddops.bundle.v1"
LAYER_TYPE: Final = "application/vnd.ddops.bundle.v1.tar+zstd"
MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"


class Blob(Word):
    """Bytes of a registry, by what they are."""

    digest: str  # `sha256:…`
    size: int  # bytes

    @property
    def sha256(self) -> str:
        return self.digest.removeprefix("sha256:")


class Registry(Word):
    """A repository of an OCI registry; each bundle in it is a tag."""

    host: str  # with its port, as docker's configuration names it
    repository: str

    @property
    def url(self) -> str:
        """Only this machine's own registry is spoken to without TLS."""
        plain = re.sub(r":\d+$", "", self.host).strip("[]") in LOOPBACK
        return f"{'http' if plain else 'https'}://{self.host}"

    @property
    def name(self) -> str:
        return f"{SCHEME}{self.host}/{self.repository}"


class Shelved(Word):
    """One bundle of a folder's index."""

    file: str
    sha256: str
    size: int  # bytes
    box: str
    matrix: str
    created: str  # when its last cell was measured; UTC, ISO 8601


class Index(Word):
    """`index.json` of a folder with bundles."""

    schema_version: Literal[1]
    bundles: dict[str, Shelved]  # by name


Shelf = Registry | Path


def parse_shelf(text: str) -> Shelf:
    """Raises ValueError with the valid forms."""
    if SCHEME not in text:
        return Path(text).expanduser()
    if found := _ADDRESS.fullmatch(text):
        return Registry(host=found["host"] + (found["port"] or ""), repository=found["repo"])
    raise ValueError(f"`{text}` is no shelf: it is {FORMS}")
