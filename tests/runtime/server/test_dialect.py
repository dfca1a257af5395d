"""Which way of writing thoughts and calls a model has is read off its chat template."""

from __future__ import annotations

import pytest

from ddtree.server.dialect import DIALECTS, MARKERS, choose
from tests.runtime.server.dialects import KIMI, QWEN


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (KIMI, "kimi-k2"),
        (QWEN, "qwen3"),
        ("{{ tools }}<tool_call>{}</tool_call>", "hermes"),
        ("{{ messages }}", "plain"),
        ("<tool_call><function=name><parameter=a></tool_call></think>", "plain"),
        (None, "plain"),
    ],
)
def test_a_template_shows_its_dialect(template: str | None, name: str) -> None:
    assert choose(template).name == name


def test_no_marker_is_part_of_another() -> None:
    """Or the end of a text could be two of them at once."""
    assert not [(a, b) for a in MARKERS for b in MARKERS if a != b and a in b]
    assert all(set(one.markers) <= MARKERS for one in DIALECTS.values())
