"""GPU tests run where there is a CUDA device, and are skipped elsewhere.

What torch and Triton warn of in their own modules is shown and is no error: it is not ours, and is
another set in each of their releases, which only a device shows. Ours stay errors.
"""

from __future__ import annotations

import pytest
import torch

TOLERATED = (
    "default:::torch",
    "default:::triton",
    "default:This process .*multi-threaded:DeprecationWarning",  # Python 3.12: a compiler forks
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.get_closest_marker("gpu"):
            continue
        for tolerated in TOLERATED:
            item.add_marker(pytest.mark.filterwarnings(tolerated))
        if not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
