"""Trees from the drafter's block to the tally, and draws."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.early
SCENES = ("trees", "draws")


def test_kernels_fit_the_gpu(misfits: list[dict[str, Any]]) -> None:
    assert misfits == []
