"""Paged caches with a tree in them, and the same paths laid out as autoregressive decode would."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.ops.bitmask import pack

PAGE = 16
DEEPEST = 15


@dataclass(frozen=True)
class Heads:
    kv: int
    group: int  # query heads a key-value head
    dim: int


@dataclass(frozen=True)
class Scene:
    """A cache whose unwritten slots are NaN, and new tokens that want to attend to it."""

    start: torch.Tensor  # [B]
    page_table: torch.Tensor  # [B, P], shuffled
    cache: torch.Tensor  # [2, slots, Hkv, D]
    parents: list[int]
    q: torch.Tensor  # [B, N, Hq, D]
    kv: torch.Tensor  # [2, B, N, Hkv, D], the new tokens' own

    @property
    def words(self) -> torch.Tensor:
        """Ancestor words [B, N, W]; every row has the same tree."""
        seen = torch.eye(len(self.parents), dtype=torch.bool)
        for node, parent in enumerate(self.parents[1:], start=1):
            seen[node] |= seen[parent]
        words = pack(seen).to(self.start.device)
        return words.expand(self.start.shape[0], -1, -1).contiguous()


def random_parents(nodes: int, seed: int) -> list[int]:
    """Parents before children, at most 15 deep."""
    generator = torch.Generator().manual_seed(seed)
    parents, depths = [-1], [0]
    while len(parents) < nodes:
        parent = int(torch.randint(0, len(parents), (), generator=generator))
        if depths[parent] < DEEPEST:
            parents.append(parent)
            depths.append(depths[parent] + 1)
    return parents


def make_scene(
    starts: list[int], nodes: int, heads: Heads, dtype: torch.dtype, seed: int = 0
) -> Scene:
    """Rows of these prefixes with one random tree of `nodes` nodes behind each."""
    generator = torch.Generator().manual_seed(seed)
    rows, wide = len(starts), (max(starts) + nodes) // PAGE + 2
    table = (torch.randperm(rows * wide, generator=generator) + 1).reshape(rows, wide)
    slots = (rows * wide + 1) * PAGE
    cache = torch.full((2, slots, heads.kv, heads.dim), float("nan"))
    for row, start in enumerate(starts):
        positions = torch.arange(start)
        where = table[row, positions // PAGE] * PAGE + positions % PAGE
        cache[:, where] = torch.randn(2, start, heads.kv, heads.dim, generator=generator)
    q = torch.randn(rows, nodes, heads.kv * heads.group, heads.dim, generator=generator)
    kv = torch.randn(2, rows, nodes, heads.kv, heads.dim, generator=generator)
    parents = random_parents(nodes, seed)
    return Scene(torch.tensor(starts), table, cache.to(dtype), parents, q.to(dtype), kv.to(dtype))


def moved(scene: Scene, device: str) -> Scene:
    return Scene(
        scene.start.to(device),
        scene.page_table.to(device),
        scene.cache.to(device),
        scene.parents,
        scene.q.to(device),
        scene.kv.to(device),
    )


def path_of(parents: list[int], node: int) -> list[int]:
    """From the root down to the node."""
    path = [node]
    while parents[path[0]] >= 0:
        path.insert(0, parents[path[0]])
    return path


def decode_of(scene: Scene, row: int) -> Scene:
    """One row a node of `row`'s tree: the node alone, with its path cached in order behind."""
    nodes = len(scene.parents)
    start = int(scene.start[row])
    wide = (start + DEEPEST + 1) // PAGE + 1
    own = start // PAGE  # pages before it are shared
    fresh = wide - own
    first = scene.cache.shape[1] // PAGE
    new_pages = first + torch.arange(nodes * fresh).reshape(nodes, fresh)
    table = torch.cat([scene.page_table[row, :own].cpu().expand(nodes, -1), new_pages], 1)
    more = torch.full_like(scene.cache[:, :1], float("nan"))
    cache = torch.cat([scene.cache, more.expand(-1, nodes * fresh * PAGE, -1, -1)], 1)
    starts = []
    for node in range(nodes):
        path = path_of(scene.parents, node)
        starts.append(start + len(path) - 1)
        for position in range(own * PAGE, start):
            slot = int(scene.page_table[row, own]) * PAGE + position % PAGE
            cache[:, int(table[node, own]) * PAGE + position % PAGE] = scene.cache[:, slot]
        for depth, ancestor in enumerate(path[:-1]):
            position = start + depth
            slot = int(table[node, position // PAGE]) * PAGE + position % PAGE
            cache[:, slot] = scene.kv[:, row, ancestor]
    device = scene.start.device
    return Scene(
        torch.tensor(starts, device=device),
        table.to(device),
        cache,
        [-1],
        scene.q[row].unsqueeze(1),
        scene.kv[:, row].unsqueeze(2),
    )
