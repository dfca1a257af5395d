"""A small random drafter against a second statement of DFlash: no cache, everything anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from ddtree.cache.pool import KvPool
from ddtree.config import DrafterShape, ModelShape, Reach
from ddtree.core.batch import Rows
from ddtree.models.dflash import Drafter, drafter_shapes, misfit, shared
from ddtree.models.errors import ModelError
from ddtree.models.mask_embedding import FILE, mask_embedding
from ddtree.models.split import Split
from ddtree.ops.tree_attention import slots_of
from ddtree.parallel.group import Group
from ddtree.speculate.draft import block_embeddings, plan_block
from tests.runtime.models.session import PAGE, pool_for
from tests.runtime.models.tensors import random_tensors

LAYERS = ModelShape(
    family="qwen3",
    vocab_size=50,
    hidden_size=24,
    intermediate_size=40,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    max_positions=256,
    tied_embeddings=False,
    qk_norm=True,
)
SHAPE = DrafterShape(layers=LAYERS, block_size=5, mask_token_id=49, target_layer_ids=(0, 2, 3))
WIDTH = len(SHAPE.target_layer_ids) * LAYERS.hidden_size
TENSORS = random_tensors(drafter_shapes(SHAPE), seed=3)


class Restated:
    """DFlash in float64 straight from its description, with the names of the checkpoint."""

    def __init__(
        self, tensors: Mapping[str, torch.Tensor], shape: DrafterShape | None = None
    ) -> None:
        self.shape = shape or SHAPE
        self.w = {name: tensor.double() for name, tensor in tensors.items()}

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        mean = x.pow(2).mean(-1, keepdim=True)
        return x / torch.sqrt(mean + LAYERS.rms_norm_eps) * self.w[name]

    def turn(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """x [T, heads, D]."""
        half = LAYERS.head_dim // 2
        frequency = LAYERS.rope_theta ** (-torch.arange(half).double() / half)
        cos, sin = (
            f(positions.double()[:, None, None] * frequency) for f in (torch.cos, torch.sin)
        )
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def heads(self, x: torch.Tensor, layer: str, which: str) -> torch.Tensor:
        rows = x @ self.w[f"{layer}.self_attn.{which}_proj.weight"].T
        return rows.view(len(x), -1, LAYERS.head_dim)

    def attention(
        self, block: torch.Tensor, context: torch.Tensor, index: int, positions: torch.Tensor
    ) -> torch.Tensor:
        layer, reach = f"layers.{index}", self.shape.reach(index)
        distance = positions[len(context) :, None] - positions
        unseen = torch.zeros_like(distance, dtype=torch.bool)
        if reach.causal:
            unseen |= distance < 0
        if reach.window is not None:
            unseen |= distance.abs() >= reach.window
        seen = torch.cat((context, block))
        q = self.norm(self.heads(block, layer, "q"), f"{layer}.self_attn.q_norm.weight")
        k = self.norm(self.heads(seen, layer, "k"), f"{layer}.self_attn.k_norm.weight")
        q, k = self.turn(q, positions[len(context) :]), self.turn(k, positions)
        v = self.heads(seen, layer, "v")
        group = LAYERS.num_heads // LAYERS.num_kv_heads
        out = []
        for head in range(LAYERS.num_heads):
            scores = q[:, head] @ k[:, head // group].T / LAYERS.head_dim**0.5
            scores = scores.masked_fill(unseen, -torch.inf)
            out.append(scores.softmax(-1) @ v[:, head // group])
        return torch.cat(out, -1) @ self.w[f"{layer}.self_attn.o_proj.weight"].T

    def mlp(self, x: torch.Tensor, layer: str) -> torch.Tensor:
        gate, up, down = (
            self.w[f"{layer}.mlp.{part}_proj.weight"] for part in ("gate", "up", "down")
        )
        g = x @ gate.T
        return (g * torch.sigmoid(g) * (x @ up.T)) @ down.T

    def __call__(self, embeddings: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Block embeddings [b, H] after features [T, F] of positions 0 .. T - 1."""
        context = self.norm(features.double() @ self.w["fc.weight"].T, "hidden_norm.weight")
        x = embeddings.double()
        positions = torch.arange(len(features) + len(embeddings))
        for i in range(LAYERS.num_layers):
            layer = f"layers.{i}"
            normed = self.norm(x, f"{layer}.input_layernorm.weight")
            x = x + self.attention(normed, context, i, positions)
            x = x + self.mlp(self.norm(x, f"{layer}.post_attention_layernorm.weight"), layer)
        return self.norm(x, "norm.weight")


@pytest.fixture(scope="module")
def drafter() -> Drafter:
    return Drafter(SHAPE, TENSORS, torch.empty(0))


NEAR = (Reach(), Reach(6, causal=True), Reach(3, causal=False))
CAUSAL = (Reach(causal=True),) * 3


@pytest.mark.parametrize("reaches", [(), NEAR, CAUSAL], ids=["all", "windows", "causal"])
def test_blocks_of_rows_at_different_positions_match_the_restatement(
    reaches: tuple[Reach, ...],
) -> None:
    shape = dataclasses.replace(SHAPE, reaches=reaches)
    drafter = Drafter(shape, TENSORS, torch.empty(0))
    torch.manual_seed(4)
    lengths, longest, block = torch.tensor([9, 3]), 9, SHAPE.block_size
    table = torch.randperm(8).view(2, 4)
    pool = pool_for(LAYERS, 8 * PAGE)
    features = torch.randn(2, longest, WIDTH)
    embeddings = torch.randn(2, block, LAYERS.hidden_size)
    with torch.inference_mode():
        for row, length in enumerate(lengths.tolist()):
            _write(drafter, features[row, :length], table[row], pool)
        positions = lengths.unsqueeze(1) + torch.arange(block)
        plans = plan_block(rows_at(lengths, table), shape, PAGE, longest)
        found = drafter.forward(embeddings, positions, pool, plans)
    restated = Restated(TENSORS.tensors, shape)
    for row, length in enumerate(lengths.tolist()):
        wanted = restated(embeddings[row], features[row, :length])
        torch.testing.assert_close(found[row].double(), wanted, atol=2e-5, rtol=1e-4)


def test_a_context_written_in_pieces_is_the_context_written_at_once(drafter: Drafter) -> None:
    torch.manual_seed(5)
    features, table = torch.randn(10, WIDTH), torch.tensor([1, 0, 2])
    whole, pieces = pool_for(LAYERS, 12), pool_for(LAYERS, 12)
    with torch.inference_mode():
        _write(drafter, features, table, whole)
        for start, end in ((0, 6), (6, 7), (7, 10)):
            _write(drafter, features[start:end], table, pieces, start)
    torch.testing.assert_close(whole.kv, pieces.kv, equal_nan=True)


def test_a_block_leaves_the_context_as_it_was(drafter: Drafter) -> None:
    torch.manual_seed(6)
    start, block = torch.tensor([6]), SHAPE.block_size
    table = torch.tensor([[0, 1, 2]])
    pool = pool_for(LAYERS, 12)
    embeddings = torch.randn(2, 1, block, LAYERS.hidden_size)
    positions = start + torch.arange(block).unsqueeze(0)
    with torch.inference_mode():
        _write(drafter, torch.randn(6, WIDTH), table[0], pool)
        plans = plan_block(rows_at(start, table), SHAPE, PAGE, 6)
        first = drafter.forward(embeddings[0], positions, pool, plans)
        drafter.forward(embeddings[1], positions, pool, plans)
        again = drafter.forward(embeddings[0], positions, pool, plans)
    assert first.equal(again)


def test_context_beyond_the_window_is_not_attended() -> None:
    """What lies there may be anything, or nothing."""
    shape = dataclasses.replace(SHAPE, reaches=(Reach(4, causal=True),) * 3)
    drafter = Drafter(shape, TENSORS, torch.empty(0))
    torch.manual_seed(8)
    start, table = torch.tensor([11]), torch.tensor([[2, 0, 1, 3]])
    features = torch.randn(11, WIDTH)
    embeddings = torch.randn(1, SHAPE.block_size, LAYERS.hidden_size)
    positions = start + torch.arange(SHAPE.block_size).unsqueeze(0)
    found = []
    for known in (0, 8):  # the whole context; its last three positions
        pool = pool_for(LAYERS, 16)
        pool.kv.zero_() if known else None
        with torch.inference_mode():
            _write(drafter, features[known:], table[0], pool, known)
            plans = plan_block(rows_at(start, table), shape, PAGE, 11)
            found.append(drafter.forward(embeddings, positions, pool, plans))
    assert found[0].equal(found[1])


def test_the_masks_of_a_block_have_the_drafters_own_embedding(tmp_path: Path) -> None:
    vector = torch.arange(float(LAYERS.hidden_size))
    beyond = dataclasses.replace(SHAPE, mask_token_id=LAYERS.vocab_size + 7)
    for stored in (
        vector.unsqueeze(0),
        {"embedding": vector, "mask_token_id": beyond.mask_token_id},
    ):
        torch.save(stored, tmp_path / FILE)
        mask = mask_embedding(tmp_path, beyond)
        assert mask is not None
        assert mask.equal(vector)
    target = TargetOfOnes()
    own = Drafter(beyond, TENSORS, torch.empty(0), mask)
    assert misfit(beyond, dataclasses.replace(LAYERS, num_layers=4), own_mask=True) is None
    tokens = torch.tensor([[3], [1]]).repeat(1, SHAPE.block_size)
    tokens[:, 1:] = SHAPE.mask_token_id
    block = block_embeddings(tokens, target, own)
    assert block[:, 0].eq(torch.tensor([[4.0], [2.0]])).all()
    assert block[:, 1:].equal(vector.expand(2, SHAPE.depth, -1))
    plain = block_embeddings(tokens[:1], target, Drafter(SHAPE, TENSORS, torch.empty(0)))
    assert plain[0, 1:].eq(SHAPE.mask_token_id + 1.0).all()


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ({"embedding": torch.ones(24), "mask_token_id": 7}, "is of token 7, config.json masks wi"),
        (torch.ones(23), "must be 24 floats, found 23"),
        ({"vector": torch.ones(24)}, "holds no tensor"),
        (b"not a checkpoint", "cannot be read"),
    ],
)
def test_a_mask_embedding_that_does_not_fit_is_refused(
    tmp_path: Path, stored: object, said: str
) -> None:
    path = tmp_path / FILE
    path.write_bytes(stored) if isinstance(stored, bytes) else torch.save(stored, path)
    with pytest.raises(ModelError, match=said):
        mask_embedding(tmp_path, SHAPE)


class TargetOfOnes:
    """Embeds a token as one more than itself, in every feature."""

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        return (tokens + 1.0).unsqueeze(-1).expand(*tokens.shape, LAYERS.hidden_size)


def test_a_drafter_of_another_target_is_told_apart() -> None:
    target = dataclasses.replace(LAYERS, num_layers=4)
    assert misfit(SHAPE, target) is None
    cases = {
        "is 24 wide, the target 32": dataclasses.replace(target, hidden_size=32),
        "knows 50 tokens, the target 51": dataclasses.replace(target, vocab_size=51),
        "reads layer 3, the target has 3": dataclasses.replace(target, num_layers=3),
    }
    for said, other in cases.items():
        assert misfit(SHAPE, other) == said
    masked = dataclasses.replace(SHAPE, mask_token_id=50)
    assert misfit(masked, target) == "masks with token 50, the target has 50"


def test_a_checkpoint_with_fewer_features_does_not_load() -> None:
    narrow = dataclasses.replace(SHAPE, target_layer_ids=(0, 2))
    with pytest.raises(ModelError, match=r"tensor fc\.weight is 24 x 72, not 24 x 48"):
        Drafter(narrow, TENSORS, torch.empty(0))


def rows_at(start: torch.Tensor, table: torch.Tensor) -> Rows:
    """Rows of which only the places matter."""
    share = start.float()
    return Rows(start, start, table, share, share, start, share, start, start, share)


def _write(
    drafter: Drafter, features: torch.Tensor, pages: torch.Tensor, pool: KvPool, start: int = 0
) -> None:
    positions = torch.arange(start, start + len(features)).unsqueeze(0)
    slots = slots_of(pages.unsqueeze(0), positions, PAGE)
    drafter.write_context(features.unsqueeze(0), positions, slots, pool)


@pytest.mark.parametrize(("size", "heads"), [(2, 2), (3, 4)])
def test_ranks_share_a_drafter_that_divides_and_have_another_whole(size: int, heads: int) -> None:
    split = Split(Group(0, size))
    held = shared(SHAPE, split).held(SHAPE.layers)
    assert held.num_heads == heads
