"""The environment lock names every package of the interpreter that was asked."""

from __future__ import annotations

import hashlib
import platform
import sys
from importlib.metadata import distribution

import pytest
from pydantic import ValidationError

from ddops.facts.environment import command, parse
from ddops.host.local import Local


def test_every_package_has_its_version_and_the_hash_of_its_record() -> None:
    said = Local().run(command(sys.executable))
    found = parse(said.stdout)
    assert found.python.endswith(platform.python_version())
    package = next(each for each in found.packages if each.name == "pydantic")
    record = distribution("pydantic").read_text("RECORD")
    assert record is not None
    assert package.version == distribution("pydantic").version
    assert package.record_sha256 == hashlib.sha256(record.encode()).hexdigest()
    names = [each.name for each in found.packages]
    assert names == sorted(set(names))


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(ValidationError):
        parse("Traceback (most recent call last):")
