"""Fixtures of the ops half."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ddops.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()
