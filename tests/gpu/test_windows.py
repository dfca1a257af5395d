"""Windows on the device: replays see the window of the moment, and what is seen elsewhere."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.tree_attention import Pattern, plan_window, tree_attention

pytestmark = pytest.mark.gpu
ROWS, NEW, WINDOW, PAGE, HEADS, KV_HEADS, DIM = 3, 8, 21, 16, 9, 3, 64


@pytest.mark.parametrize("pattern", ["causal", "all"])
def test_replay_attends_to_the_window_of_the_moment(pattern: Pattern) -> None:
    torch.manual_seed(0)
    table = torch.randperm(ROWS * 8).view(ROWS, 8)
    keys, values = torch.randn(2, ROWS * 8 * PAGE, KV_HEADS, DIM)
    q = torch.randn(ROWS, NEW, HEADS, DIM)

    def attended(start: torch.Tensor, device: str) -> torch.Tensor:
        plan = plan_window(start, table.to(device), NEW, pattern, PAGE, WINDOW)
        return tree_attention(q.to(device), keys.to(device), values.to(device), plan)

    start = torch.tensor([0, 5, 100], device="cuda")
    moved = [one.to("cuda") for one in (table, q, keys, values)]
    attended(start, "cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan = plan_window(start, moved[0], NEW, pattern, PAGE, WINDOW)
        out = tree_attention(moved[1], moved[2], moved[3], plan)
    for places in ([0, 5, 100], [30, 0, 19], [1, 119, 64]):
        start.copy_(torch.tensor(places))
        graph.replay()
        wanted = attended(torch.tensor(places), "cpu")
        torch.testing.assert_close(out.cpu(), wanted, atol=2e-3, rtol=2e-3)


def test_a_long_window_of_bfloat16_is_the_references() -> None:
    torch.manual_seed(0)
    table = torch.randperm(2 * 300).view(2, 300)
    keys, values = torch.randn(2, 600 * PAGE, 8, 128).bfloat16()
    q = torch.randn(2, NEW, 64, 128).bfloat16()
    start = torch.tensor([4500, 77])
    found = []
    for device, kind in (("cpu", torch.float32), ("cuda", torch.bfloat16)):
        plan = plan_window(start.to(device), table.to(device), NEW, "all", PAGE, 4096)
        moved = [one.to(device, kind) for one in (q, keys, values)]
        found.append(tree_attention(moved[0], moved[1], moved[2], plan).float().cpu())
    assert float((found[1] - found[0]).norm() / found[0].norm()) < 0.01
