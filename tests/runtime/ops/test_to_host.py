"""Numbers on their way to the host are all there, and nothing beside them is touched."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.to_host import BLOCK, to_host
from tests.runtime.ops.interpreted import interpreted, poisoned


@interpreted
@pytest.mark.parametrize("kind", [torch.float64, torch.int64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 20), (1, BLOCK), (2, BLOCK + 1)])
def test_every_number_arrives(shape: tuple[int, int], kind: torch.dtype) -> None:
    numbers = torch.randn(shape).mul(1e6).to(kind)
    whole = poisoned(shape[0] + 1, shape[1], dtype=torch.float64).to(kind)
    before = whole.clone()
    to_host(numbers, whole[:-1])
    assert torch.equal(whole[:-1], numbers)
    assert torch.equal(whole[-1].view(torch.int64), before[-1].view(torch.int64))
