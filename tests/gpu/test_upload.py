"""Numbers that are on their way to the host keep their place there."""

from __future__ import annotations

import pytest
import torch

from ddtree.engine.upload import download

pytestmark = pytest.mark.gpu


def test_numbers_that_nobody_reads_keep_their_place_until_they_are_there() -> None:
    numbers = torch.zeros(1, 20, dtype=torch.float64, device="cuda")
    large = torch.eye(8192, device="cuda")
    for _ in range(20):  # the copy waits for a tenth of a second of these
        large = large @ large
    place = download(numbers).values.data_ptr()
    others = [torch.empty(1, 20, dtype=torch.float64, pin_memory=True) for _ in range(8)]
    assert place not in {other.data_ptr() for other in others}
    torch.cuda.synchronize()
