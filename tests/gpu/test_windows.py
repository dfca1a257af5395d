"""A window is plain torch: on the device it must still capture, and see what it sees elsewhere."""

from __future__ import annotations

import pytest
import torch

from ddtree.ops.tree_attention import plan_window, tree_attention

pytestmark = pytest.mark.gpu
ROWS, NEW, WINDOW, PAGE, HEADS, KV_HEADS, DIM = 3, 8, 21, 16, 9, 3, 64


def test_replay_attends_to_the_window_of_the_moment() -> None:
    torch.manual_seed(0)
    table = torch.randperm(ROWS * 8).view(ROWS, 8)
    keys, values = torch.randn(2, ROWS * 8 * PAGE, KV_HEADS, DIM)
    q = torch.randn(ROWS, NEW, HEADS, DIM)

    def attended(start: torch.Tensor, device: str) -> torch.Tensor:
        plan = plan_window(start, table.to(device), NEW, "causal", PAGE, WINDOW)
        return tree_attention(q.to(device), keys.to(device), values.to(device), plan)

    start = torch.tensor([0, 5, 100], device="cuda")
    moved = [one.to("cuda") for one in (table, q, keys, values)]
    attended(start, "cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan = plan_window(start, moved[0], NEW, "causal", PAGE, WINDOW)
        out = tree_attention(moved[1], moved[2], moved[3], plan)
    for places in ([0, 5, 100], [30, 0, 19], [1, 119, 64]):
        start.copy_(torch.tensor(places))
        graph.replay()
        wanted = attended(torch.tensor(places), "cpu")
        torch.testing.assert_close(out.cpu(), wanted, atol=2e-3, rtol=2e-3)
