"""No scene is left out of what is compiled ahead of time."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

from tests.runtime.ops import compiled, scenes


def test_every_scene_is_compiled() -> None:
    folder = Path(compiled.__path__[0])
    files = [import_module(f"{compiled.__name__}.{p.stem}") for p in folder.glob("test_*.py")]
    written = [
        name
        for name, value in vars(scenes).items()
        if inspect.isfunction(value)
        and value.__module__ == scenes.__name__
        and not inspect.signature(value).parameters
    ]
    assert sorted(name for file in files for name in file.SCENES) == sorted(written)
