"""The environment lock names every package of the interpreter that was asked."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ddops.facts.environment import command, parse
from ddops.host.local import Local
from ddops.spec.packages import Origin


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


ARCHIVE = {"url": "https://example.org/a.whl"}


@pytest.mark.parametrize(
    ("direct", "origin"),
    [
        (None, None),
        (
            {**ARCHIVE, "archive_info": {"hashes": {"sha256": "a" * 64}}},
            Origin(kind="archive", url="https://example.org/a.whl", sha256="a" * 64),
        ),
        (
            {**ARCHIVE, "archive_info": {"hash": f"sha256={'b' * 64}"}},
            Origin(kind="archive", url="https://example.org/a.whl", sha256="b" * 64),
        ),
        ({**ARCHIVE, "archive_info": {}}, Origin(kind="archive", url="https://example.org/a.whl")),
        (
            {"url": "file:///wheels/a.whl", "archive_info": {"hashes": {"sha256": "a" * 64}}},
            Origin(kind="archive", url=None, sha256="a" * 64),
        ),
        (
            {"url": "https://example.org/k", "vcs_info": {"vcs": "git", "commit_id": "c" * 40}},
            Origin(kind="vcs", url="https://example.org/k", vcs="git", commit="c" * 40),
        ),
        ({"url": "file:///srv/x", "dir_info": {}}, Origin(kind="directory", url=None)),
    ],
)
def test_a_package_says_where_it_came_from(
    tmp_path: Path, direct: dict[str, Any] | None, origin: Origin | None
) -> None:
    info = tmp_path / "An_Odd.Name-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: An_Odd.Name\nVersion: 1.2\n")
    (info / "WHEEL").write_text("Tag: cp311-cp311-linux_x86_64\nTag: cp311-abi3-linux_x86_64\n")
    if direct is not None:
        (info / "direct_url.json").write_text(json.dumps(direct))
    ask = command(sys.executable).model_copy(update={"env": {"PYTHONPATH": str(tmp_path)}})
    found = next(each for each in parse(Local().run(ask).stdout).packages if "odd" in each.name)
    assert (found.name, found.version, found.origin) == ("an-odd-name", "1.2", origin)
    assert found.wheel == "an_odd_name-1.2-cp311-cp311.abi3-linux_x86_64.whl"


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(ValidationError):
        parse("Traceback (most recent call last):")
