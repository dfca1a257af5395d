"""What names a shelf."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddops.spec.shelf import Registry, parse_shelf


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("oci://registry.example.org/team/bundles", "https://registry.example.org"),
        ("oci://registry.example.org:5000/team/bundles", "https://registry.example.org:5000"),
        ("oci://localhost:5000/bundles", "http://localhost:5000"),
        ("oci://127.0.0.1:5000/bundles", "http://127.0.0.1:5000"),
        ("oci://[::1]:5000/bundles", "http://[::1]:5000"),
    ],
)
def test_a_registry_is_spoken_to_over_tls_unless_it_is_on_this_machine(text: str, url: str) -> None:
    found = parse_shelf(text)
    assert isinstance(found, Registry)
    assert (found.url, found.name) == (url, text)


def test_everything_without_a_scheme_is_a_folder() -> None:
    assert parse_shelf("/mnt/bundles") == Path("/mnt/bundles")
    assert parse_shelf("~/bundles") == Path("~/bundles").expanduser()


@pytest.mark.parametrize("text", ["oci://host", "oci://host/UPPER", "oci://u:p@host/bundles"])
def test_what_is_neither_is_told_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="a folder, or `oci://HOST"):
        parse_shelf(text)
