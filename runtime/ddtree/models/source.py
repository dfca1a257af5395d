"""What lies at a model path: one GGUF file or a folder in the format of the field. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ddtree.models.errors import ModelError

CONFIG = "config.json"


@dataclass(frozen=True)
class Source:
    folder: Path
    gguf: Path | None  # None: config.json and safetensors


def find_source(path: Path | str) -> Source:
    """A file is taken for a GGUF; a folder needs a config.json or exactly one *.gguf."""
    path = Path(path)
    if path.is_file():
        return Source(path.parent, path)
    if not path.is_dir():
        raise ModelError(path, "does not exist", hint="give a GGUF file or a model folder")
    if (path / CONFIG).is_file():
        return Source(path, None)
    files = sorted(path.glob("*.gguf"))
    if len(files) != 1:
        found = "no GGUF file" if not files else f"{len(files)} GGUF files"
        raise ModelError(path, f"has no {CONFIG} and {found}", hint="name the file itself")
    return Source(path, files[0])
