"""Forwards over pieces of prompts: captured graphs where there are any, else the same eagerly.

A small prefill is some 300 launches, which take the host longer than they take the device, and
every answer stands still meanwhile. A graph is captured per form (`engine.lines`), largest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

import torch

from ddtree.core.sequence import Sampling
from ddtree.engine.graphs import Graphs
from ddtree.engine.lines import WIDTH, Form, Piece, Words, fields, form_of, pack, smallest
from ddtree.engine.upload import on_host
from ddtree.ops.sample import Chance, Method, Narrowing, sample
from ddtree.ops.tree_attention import plan_attention
from ddtree.speculate.seam import Models, Pools


@dataclass(frozen=True)
class Written:
    """What comes after each of P prompts, if they end. Valid until the next launch or prefill."""

    chosen: torch.Tensor  # [P, 2] int64: the token, and whether the logits are finite
    logits: torch.Tensor  # [P, 1, V]


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    packed: torch.Tensor  # static input
    written: Written  # static output


class Prefiller:
    """`capture` once, then `write` pieces. Its forwards and the steps are in one stream's order."""

    def __init__(self, models: Models, pools: Pools, pages: int = 0) -> None:
        """`pages`: those of a prompt that kernels are compiled for, where there are kernels."""
        self.models, self.pools, self._pages = models, pools, pages
        self.device = models.target.device
        self._captured: dict[Form, _Captured] = {}

    @property
    def lines(self) -> int:
        """Of the largest graph."""
        return max((form.lines for form in self._captured), default=0)

    def capture(self, forms: list[Form], graphs: Graphs) -> None:
        """Record one graph a form on prompts of nobody, which change nothing that is in use."""
        for form in sorted(forms, reverse=True):
            packed = on_host(pack([], form), self.device).to(self.device)
            longest = form.pages * self.pools.page_size
            # the kernel that filters serves every prompt: a greedy one's token is the first of the
            # largest logits, which each method finds alike before it looks at a filter
            graph, written = graphs.record(partial(self._forward, packed, form, longest, "nucleus"))
            assert written is not None, "there was a method"
            self._captured[form] = _Captured(graph, packed, written)

    def form(self, pieces: list[Piece]) -> Form:
        """What these are written in. The same on every rank."""
        cuda = self.device.type == "cuda"
        width = line_width(max(len(piece.tokens) for piece in pieces), self.device)
        needed = form_of(pieces, width, self.pools.page_size)
        wide = Form(needed.lines, needed.prompts, max(needed.pages, self._pages), width)
        return smallest(self._captured, needed) or (wide if cuda else needed)

    def write(self, pieces: list[Piece]) -> Written | None:
        """One forward over all pieces into the caches; None when nothing comes after any."""
        form = self.form(pieces)
        ended = [piece.sampling for piece in pieces if piece.ends]
        packed: Words = pack(pieces, form)
        captured = self._captured.get(form)
        if captured is None:
            news = on_host(packed, self.device).to(self.device, non_blocking=True)
            longest = max(piece.begin + piece.lines(form.width) * form.width for piece in pieces)
            return self._forward(news, form, longest, method_of(ended) if ended else None)
        captured.packed.copy_(on_host(packed, self.device), non_blocking=True)
        captured.graph.replay()
        return captured.written if ended else None

    def _forward(
        self, packed: torch.Tensor, form: Form, longest: int, method: Method | None
    ) -> Written | None:
        """Of what `lines.pack` made; without a method nothing is said of what comes next."""
        models, pools, at = self.models, self.pools, unpack(packed, form)
        start = at["start"]
        positions = start.unsqueeze(1) + torch.arange(form.width, device=start.device)  # [R, W]
        table = at["table"].index_select(0, at["prompt"])  # [R, pages]
        # padding lies behind a prompt's chunk, in positions that the next step writes, or on page 0
        plan = plan_attention(start, table, form.width, "causal", pools.page_size, longest)
        out = models.target.forward(
            at["tokens"], positions, pools.target, plan, models.feature_layers
        )
        if models.drafter is not None and pools.drafter is not None:
            assert out.features is not None
            models.drafter.write_context(out.features, positions, plan.write_slots, pools.drafter)
        if method is None:
            return None
        last = out.hidden.flatten(0, 1).index_select(0, at["last"])  # [P, H]
        logits = models.target.raw_logits(last.unsqueeze(1))  # [P, 1, V]
        return Written(_choose(logits, at, method), logits)


def line_width(longest: int, device: torch.device) -> int:
    """Tokens of a line: a CPU pays for every padded token, and takes a piece as it is."""
    return WIDTH if device.type == "cuda" else longest


def unpack(packed: torch.Tensor, form: Form) -> dict[str, torch.Tensor]:
    """Views of the fields."""
    found = {}
    for name, field in fields(form).items():
        words = packed[field.begin : field.begin + field.words]
        values = words.view(torch.float32) if field.real else words
        found[name] = values[: prod(field.shape)].view(field.shape)
    return found


def _choose(logits: torch.Tensor, at: dict[str, torch.Tensor], method: Method) -> torch.Tensor:
    """The token after each prompt, and whether its logits are finite: [P, 2] int64."""
    chosen = sample(
        logits,
        at["temperature"],
        at["top_p"],
        Chance(at["seed"], at["position"].unsqueeze(1)),
        method=method,
        narrowing=Narrowing(at["top_k"], at["min_p"]),
    )
    return torch.cat([chosen.tokens, chosen.peak.isfinite()], 1)


def method_of(sampled: list[Sampling]) -> Method:
    """The cheapest way to sample that serves all of them."""
    hot = [one for one in sampled if one.temperature > 0]
    if not hot:
        return "greedy"
    narrow = any(one.top_p < 1 or one.top_k or one.min_p for one in hot)
    return "nucleus" if narrow else "full"
