"""The JSON files beside the weights. No torch: the tokenizer reads them too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ddtree.models.errors import ModelError


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a checkpoint. Raises ModelError when it is not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(path, f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ModelError(path, f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(path, "is not a JSON object")
    return value


def optional_json(path: Path) -> dict[str, Any]:
    """The same, or nothing when the file is not there."""
    return read_json(path) if path.is_file() else {}
