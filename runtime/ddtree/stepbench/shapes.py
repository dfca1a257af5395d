"""Model shapes to time without their weights. A table: sizes from the models' own configs."""

from __future__ import annotations

from dataclasses import dataclass

from ddtree.config import DrafterShape, ModelShape


@dataclass(frozen=True)
class Pair:
    target: ModelShape
    drafter: DrafterShape


_SMOLLM2 = ModelShape(
    family="llama",
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_layers=30,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    rms_norm_eps=1e-5,
    rope_theta=1e5,
    max_positions=8192,
    tied_embeddings=True,
)
_QWEN3_8B = ModelShape(
    family="qwen3",
    vocab_size=151936,
    hidden_size=4096,
    intermediate_size=12288,
    num_layers=36,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    rms_norm_eps=1e-6,
    rope_theta=1e6,
    max_positions=40960,
    tied_embeddings=False,
    qk_norm=True,
)


def _drafter(target: ModelShape, layers: int, mask: int, ids: tuple[int, ...]) -> DrafterShape:
    """A DFlash drafter of the target's own layer sizes, block 16."""
    own = {**vars(target), "num_layers": layers, "tied_embeddings": False, "qk_norm": True}
    return DrafterShape(ModelShape(**own), block_size=16, mask_token_id=mask, target_layer_ids=ids)


PAIRS: dict[str, Pair] = {
    "smollm2-135m": Pair(_SMOLLM2, _drafter(_SMOLLM2, 5, 16, (1, 8, 14, 20, 27))),
    "qwen3-8b": Pair(_QWEN3_8B, _drafter(_QWEN3_8B, 5, 151669, (1, 9, 17, 25, 33))),
}
