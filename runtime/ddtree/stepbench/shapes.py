"""Model shapes to time without their weights. A table: sizes from the models' own configs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ddtree.config import (
    DrafterShape,
    Experts,
    Latent,
    ModelShape,
    Reach,
    RopeScaling,
    SigmoidRouting,
)
from ddtree.models.dflash import shared
from ddtree.models.split import Split, check_divides
from ddtree.parallel.group import Group


@dataclass(frozen=True)
class Pair:
    target: ModelShape
    drafter: DrafterShape
    int4: bool = False  # routed experts are stored so, in groups of 32 columns

    def cut(self, layers: int) -> Pair:
        """The first so many layers of the target; the drafter reads those there are."""
        read = tuple(min(index, layers - 1) for index in self.drafter.target_layer_ids)
        target = replace(self.target, num_layers=layers)
        return replace(self, target=target, drafter=replace(self.drafter, target_layer_ids=read))

    def rank_of(self, ranks: int) -> Pair:
        """What one of so many ranks holds, as a model that runs alone.

        Raises ModelError where the target does not divide.
        """
        if ranks == 1:
            return self
        split = Split(Group(0, ranks))
        check_divides(Path(self.target.family), self.target, split)
        rows = self.target.vocab_size // ranks
        target = replace(split.held(self.target), vocab_size=rows)
        drafts = shared(self.drafter, split).held(self.drafter.layers)
        layers = replace(drafts, vocab_size=rows)
        mask = min(self.drafter.mask_token_id, rows - 1)
        return replace(
            self, target=target, drafter=replace(self.drafter, layers=layers, mask_token_id=mask)
        )


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
_KIMI_YARN = RopeScaling("yarn", factor=64.0, original_positions=4096, slow=1.0, fast=32.0)
_KIMI_K26 = ModelShape(
    family="deepseek_v3",
    vocab_size=163840,
    hidden_size=7168,
    intermediate_size=18432,
    num_layers=61,
    num_heads=64,
    num_kv_heads=64,
    head_dim=192,
    rms_norm_eps=1e-5,
    rope_theta=5e4,
    max_positions=262144,
    tied_embeddings=False,
    rope_scaling=_KIMI_YARN,
    experts=Experts(
        count=384,
        active=8,
        intermediate_size=2048,
        normalised=True,
        dense_layers=(0,),
        shared_size=2048,
        sigmoid=SigmoidRouting(groups=1, active_groups=1, scaling=2.827),
    ),
    latent=Latent(
        rank=512, rope_dim=64, nope_dim=128, value_dim=128, query_rank=1536, scale=0.1447
    ),
)
# Second-hand: its config is not public. The sizes give the 6.48 GiB that are.
_KIMI_DRAFTER = DrafterShape(
    ModelShape(
        family="qwen3",
        vocab_size=163840,
        hidden_size=7168,
        intermediate_size=18432,
        num_layers=6,
        num_heads=64,
        num_kv_heads=8,
        head_dim=128,
        rms_norm_eps=1e-5,
        rope_theta=5e4,
        max_positions=262144,
        tied_embeddings=False,
        qk_norm=True,
        rope_scaling=replace(_KIMI_YARN, amplitude=1.4159),
    ),
    block_size=8,
    mask_token_id=163838,
    target_layer_ids=(1, 12, 24, 35, 47, 58),
    reaches=(Reach(window=4096),) * 6,
)


def _drafter(target: ModelShape, layers: int, mask: int, ids: tuple[int, ...]) -> DrafterShape:
    """A DFlash drafter of the target's own layer sizes, block 16."""
    own = {**vars(target), "num_layers": layers, "tied_embeddings": False, "qk_norm": True}
    return DrafterShape(ModelShape(**own), block_size=16, mask_token_id=mask, target_layer_ids=ids)


PAIRS: dict[str, Pair] = {
    "smollm2-135m": Pair(_SMOLLM2, _drafter(_SMOLLM2, 5, 16, (1, 8, 14, 20, 27))),
    "qwen3-8b": Pair(_QWEN3_8B, _drafter(_QWEN3_8B, 5, 151669, (1, 9, 17, 25, 33))),
    "kimi-k2.6": Pair(_KIMI_K26, _KIMI_DRAFTER, int4=True),
}
