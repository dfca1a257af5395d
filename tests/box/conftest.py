"""Every test of this folder may boot real boxes; where that is impossible, it says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.box import Box, impossible, shared_paths
from tests.box.operator import Operator
from tests.box.rootfs import cache, key
from tests.checkout import ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.box)


@pytest.fixture(scope="session", autouse=True)
def bootable() -> None:
    reason = impossible()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def box() -> Iterator[Box]:
    """Bare: nothing of this machine is in it."""
    with Box() as made:
        yield made


@pytest.fixture
def equipped() -> Iterator[Box]:
    """With this checkout and its Python, at the same paths.

    The hardened unit hides /tmp, and with it a checkout that lies there.
    """
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("the checkout lies in /tmp, which the service does not see")
    with Box(share=shared_paths()) as made:
        yield made


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operator:
    return operating(tmp_path, monkeypatch)


def operating(home: Path, patch: pytest.MonkeyPatch) -> Operator:
    """Whoever runs ddops, in a home folder of its own: no key, no agent of this machine's user."""
    key()  # lies in the real home folder
    patch.setenv("DDOPS_TEST_CACHE", str(cache()))
    patch.setenv("HOME", str(home))
    patch.delenv("SSH_AUTH_SOCK", raising=False)
    return Operator(home)
