"""Groups of boxes: a box names its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddops.errors import SpecError, UsageError
from ddops.spec.box import Box
from ddops.spec.groups import expand, together
from ddops.spec.load import load_box
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


def box(name: str, **deployment: Any) -> Box:
    base = load_box("local").deployment.model_dump(exclude_unset=True)
    return Box.model_validate({"name": name, "deployment": {**base, **deployment}})


def rank(name: str, number: int, leader: str) -> Box:
    return box(name, engine="vllm", node={"rank": number, "of": 2, "leader": leader})


def router(name: str, *replicas: str) -> Box:
    addresses = {one: f"http://{one}:8421" for one in replicas}
    wish = {"engine": "sglang-router", "model": {"name": "m"}, "router": {"replicas": addresses}}
    return Box.model_validate({"name": name, "deployment": wish})


def test_boxes_stand_alone_unless_they_serve_as_one() -> None:
    assert together([box("a"), box("b")]) == ()


def test_the_ranks_of_an_engine_stand_together() -> None:
    boxes = [rank("a", 0, "x:1"), rank("b", 1, "x:1"), rank("c", 0, "y:1"), box("d")]
    assert together(boxes) == (frozenset("ab"),)


def test_a_router_stands_with_its_replicas_and_with_their_ranks() -> None:
    boxes = [rank("a", 0, "x:1"), rank("b", 1, "x:1"), box("c"), router("r", "a", "c"), box("d")]
    assert together(boxes) == (frozenset("abcr"),)


def test_two_routers_before_one_replica_stand_together() -> None:
    found = together([router("r", "a", "b"), router("s", "b", "c"), box("a"), box("b"), box("c")])
    assert found == (frozenset("abcrs"),)


def test_only_what_is_named_stands_together() -> None:
    assert together([router("r", "a", "b"), box("c")]) == ()
