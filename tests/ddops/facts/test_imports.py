"""A module that is there may still not be importable: each with its reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ddops.facts import imports
from ddops.host.local import Local

SOURCES = {
    "fine": "import sys; print('[] a banner'); print('and a warning', file=sys.stderr)",
    "alone": "import a_module_that_is_not_there",
    "worded": "raise RuntimeError('two\\nlines')",
    "leaves": "raise SystemExit(3)",
    "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "hangs": "import time; time.sleep(600)",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, source in SOURCES.items():
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def broken(*names: str, limit_s: float = 60.0) -> dict[str, str]:
    return imports.parse(Local().run(imports.command(sys.executable, names, limit_s)))


@pytest.mark.usefixtures("modules")
def test_every_module_is_tried_and_the_reason_is_one_line() -> None:
    assert broken("alone", "worded", "leaves", "fine", "json") == {
        "alone": "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
        "worded": "RuntimeError: two lines",
        "leaves": "SystemExit: 3",
    }


@pytest.mark.usefixtures("modules")
def test_a_module_that_ends_python_is_named() -> None:
    found = broken("alone", "crashes", "fine")
    assert [*found] == ["alone", "crashes"]
    assert found["crashes"].startswith("it ended Python: ")


@pytest.mark.usefixtures("modules")
def test_a_module_that_hangs_is_named_and_the_rest_is_let_be() -> None:
    assert broken("fine", "hangs", "alone", limit_s=1.0) == {"hangs": "it did not end in time"}


def test_nothing_is_written_beside_a_module(modules: Path) -> None:
    broken("fine")
    assert {path.suffix for path in modules.iterdir()} == {".py"}
