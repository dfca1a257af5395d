"""What is wrong with a file that is no YAML is told at its place, in one line."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from ddops.spec.complaint import Complaint, complaint


class Inner(BaseModel):
    size: int


class Outer(BaseModel):
    files: list[Inner]


def first(text: str, whole: str = "the file") -> Complaint:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate_json(text)
    return complaint(caught.value, whole)


def test_the_place_is_named_by_keys_and_numbers() -> None:
    found = first('{"files": [{"size": 1}, {"size": "two"}]}')
    assert found.where == "files.1.size"
    assert found.message.startswith("Input should be a valid integer")
    assert str(found).startswith("files.1.size: input should be a valid integer")


def test_what_is_about_no_part_is_about_the_whole() -> None:
    assert first("no JSON").where == "the file"
    assert first("no JSON", "the line").where == "the line"
