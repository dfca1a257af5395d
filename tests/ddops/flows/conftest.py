"""A bundle of made records, packed once a module."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ddops.flows.bundle import create
from tests.ddops import records


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle's folder; its archive lies beside it. Tests that change it take a copy."""
    return create(records.written(tmp_path_factory.mktemp("made") / "results")).folder


@pytest.fixture
def copy(bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle, tmp_path / bundle.name))
