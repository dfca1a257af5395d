"""Models run the way the engine runs them: over pages, with plans, in pieces."""

from __future__ import annotations

import torch

from ddtree.cache.pool import KvPool
from ddtree.config import ModelShape
from ddtree.models.target import Target, TargetOutput
from ddtree.ops.tree_attention import AttentionPlan, Pattern, plan_attention

CPU = torch.device("cpu")
PAGE = 4


def pool_for(shape: ModelShape, slots: int, dtype: torch.dtype = torch.float32) -> KvPool:
    pool = KvPool(shape, slots, dtype=dtype, device=CPU)
    pool.kv.fill_(torch.nan)  # what was never written must never be read
    return pool


class Session:
    """`rows` sequences of one target, each in shuffled pages; feeds continue where they stopped."""

    def __init__(self, target: Target, rows: int = 1, longest: int = 64) -> None:
        self.target = target
        pages = -(-longest // PAGE)
        self.pool = pool_for(target.shape, rows * pages * PAGE, target.dtype)
        self.table = torch.randperm(rows * pages).view(rows, pages)
        self.start = torch.zeros(rows, dtype=torch.int64)

    def feed(self, tokens: torch.Tensor, feature_layers: tuple[int, ...] = ()) -> TargetOutput:
        """Tokens [B, N] after what was fed before."""
        new = tokens.shape[1]
        positions = self.start.unsqueeze(1) + torch.arange(new)
        plan = self.plan(new, "causal")
        with torch.inference_mode():
            output = self.target.forward(tokens, positions, self.pool, plan, feature_layers)
        self.start = self.start + new
        return output

    def plan(self, new: int, pattern: Pattern | torch.Tensor) -> AttentionPlan:
        longest = int(self.start.max()) + new
        return plan_attention(self.start, self.table, new, pattern, PAGE, longest)

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """[B, N, V] float32."""
        output = self.feed(tokens)
        with torch.inference_mode():
            return self.target.logits(output.hidden)

    def greedy(self, prompt: list[int], count: int) -> list[int]:
        tokens = [int(self.logits(torch.tensor([prompt]))[0, -1].argmax())]
        while len(tokens) < count:
            tokens.append(int(self.logits(torch.tensor([tokens[-1:]]))[0, -1].argmax()))
        return tokens
