"""Every test of this folder may boot real boxes; where that is impossible, it says why."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.box.box import Box, impossible, shared_paths


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.box)


@cache
def _reason() -> str | None:
    return impossible()


@pytest.fixture(autouse=True)
def _bootable() -> None:
    reason = _reason()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def box() -> Iterator[Box]:
    """Bare: nothing of this machine is in it."""
    with Box() as made:
        yield made


@pytest.fixture
def equipped() -> Iterator[Box]:
    """With this checkout and its Python, at the same paths."""
    with Box(share=shared_paths()) as made:
        yield made
