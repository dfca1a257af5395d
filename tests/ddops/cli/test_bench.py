"""How `ddops bench` reads its command line."""

from __future__ import annotations

import pytest

from ddops.cli.bench import with_matrix


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (["local"], ["local"]),
        (["local", "--matrix"], ["local", "--matrix", "local"]),
        (["--matrix", "--yes"], ["--matrix", "local", "--yes"]),
        (["--matrix", "my.yaml", "--yes"], ["--matrix", "my.yaml", "--yes"]),
        (["--matrix=my.yaml", "box"], ["--matrix=my.yaml", "box"]),
    ],
)
def test_matrix_without_a_file_is_the_default(typed: list[str], read: list[str]) -> None:
    assert with_matrix(typed) == read
