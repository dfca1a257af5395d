"""Groups of boxes: a box names its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddops.errors import SpecError, UsageError
from ddops.spec.groups import expand
from ddops.spec.shipped import shipped

LOCAL = (shipped("inventories") / "local.yaml").read_text("utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inventories").mkdir()
    for name, groups in {"a": "[west, all]", "b": "[all]", "c": "[]"}.items():
        write(tmp_path, name, groups)
    return tmp_path


def write(folder: Path, name: str, groups: str) -> None:
    path = folder / "inventories" / f"{name}.yaml"
    path.write_text(f"groups: {groups}\n{LOCAL}", "utf-8")


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        (["c"], ("c",)),
        (["all"], ("a", "b")),
        (["c", "west", "all", "c"], ("c", "a", "b")),
        (["./x.yaml", "a"], ("./x.yaml", "a")),
    ],
)
def test_a_group_stands_for_its_boxes_each_once(
    folder: Path, names: list[str], meant: tuple[str, ...]
) -> None:
    assert expand(names, folder=folder) == meant


def test_a_name_that_is_neither_lists_both(folder: Path) -> None:
    with pytest.raises(UsageError, match="there is no box `wset`") as caught:
        expand(["wset"], folder=folder)
    assert "known groups: all, west" in str(caught.value.detail)
    assert caught.value.hint == "did you mean `west`?"


def test_a_group_may_not_be_called_as_a_box(folder: Path) -> None:
    write(folder, "c", "[a]")
    with pytest.raises(SpecError, match="group `a` has the name of a box"):
        expand(["all"], folder=folder)


def test_a_broken_inventory_does_not_make_a_group_smaller(folder: Path) -> None:
    write(folder, "c", "[al l]")
    with pytest.raises(SpecError, match=r"c.yaml:1:10"):
        expand(["all"], folder=folder)


def test_names_of_boxes_need_no_inventory_to_be_read(folder: Path) -> None:
    (folder / "inventories" / "c.yaml").write_text("no: inventory", "utf-8")
    assert expand(["a", "b"], folder=folder) == ("a", "b")
