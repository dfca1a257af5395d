"""The sums over ranks: what they are with one, and what two gloo processes make of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ddtree.parallel.group import ALONE, Group
from ddtree.parallel.join import meet

TALK = """
import json
import sys
from pathlib import Path
import torch
from ddtree.parallel.join import join, leave, meet

rank = int(sys.argv[1])
group = join(rank, 2, meet(2, Path(sys.argv[2])), torch.device("cpu"))
own = torch.arange(6, dtype=getattr(torch, sys.argv[3])).view(1, 2, 3) + 10 * rank
gathered = group.all_gather(own)
once = group.all_reduce(group.first(own.clone()))
summed = group.all_reduce(own)
leave()
print(json.dumps([gathered.tolist(), once.tolist(), summed.tolist()]))
"""


def test_alone_every_sum_is_what_was_given() -> None:
    x = torch.randn(2, 3)
    assert all(made is x for made in (ALONE.first(x), ALONE.all_reduce(x), ALONE.all_gather(x)))


def test_what_counts_once_counts_on_the_first_rank() -> None:
    x = torch.randn(2, 3)
    assert Group(0, 4).first(x) is x
    assert not Group(3, 4).first(x).any()


def test_ranks_whose_folder_is_gone_do_not_look_for_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        meet(2, tmp_path / "gone")


def test_two_ranks_hear_the_same(tmp_path: Path) -> None:
    for kind in ("float32", "bfloat16"):
        folder = tmp_path / kind
        folder.mkdir()
        talking = [
            subprocess.Popen(
                [sys.executable, "-c", TALK, str(rank), str(folder), kind],
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        said = [one.communicate(timeout=120)[0] for one in talking]
        assert [one.returncode for one in talking] == [0, 0]
        gathered = [[[0, 1, 2, 10, 11, 12], [3, 4, 5, 13, 14, 15]]]
        summed = [[[10, 12, 14], [16, 18, 20]]]
        once = [[[0, 1, 2], [3, 4, 5]]]
        for line in said:
            assert json.loads(line) == [gathered, once, summed]
