"""Products, norms and rotary positions."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.early
SCENES = ("products", "halved_norms", "rows")


def test_kernels_fit_the_gpu(misfits: list[dict[str, Any]]) -> None:
    assert misfits == []
