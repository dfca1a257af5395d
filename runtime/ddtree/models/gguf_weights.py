"""A GGUF file as a checkpoint: its metadata as a ModelShape, its tensors under the usual names."""

from __future__ import annotations

from pathlib import Path

import torch

from ddtree.config import Experts, ModelShape
from ddtree.models.errors import ModelError
from ddtree.models.gguf_file import GgufFile, open_gguf_file
from ddtree.models.gguf_rope import TABLE, rope_scaling
from ddtree.models.registry import FAMILIES
from ddtree.models.weights import EMBEDDING, HEAD, NORM, ROUTER, Checkpoint, expert_name, layer_name

# llama.cpp's name -> ours
TOP = {"token_embd.weight": EMBEDDING, "output_norm.weight": NORM, "output.weight": HEAD}
LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_q_norm.weight": "self_attn.q_norm.weight",
    "attn_k_norm.weight": "self_attn.k_norm.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
    "ffn_gate_inp.weight": ROUTER[0],
}
# All experts of a layer in one tensor [experts, out, in] -> the name that one of them has with us
STACKED = {
    "ffn_gate_exps.weight": "mlp.gate_proj.weight",
    "ffn_up_exps.weight": "mlp.up_proj.weight",
    "ffn_down_exps.weight": "mlp.down_proj.weight",
}
INTERLEAVED = ("self_attn.q_proj.weight", "self_attn.k_proj.weight")


class GgufWeights:
    def __init__(self, file: GgufFile, shape: ModelShape) -> None:
        self.path = file.path
        self._file = file
        self._head_dim = shape.head_dim
        self._interleaved = FAMILIES[shape.family].gguf_interleaves
        self._at: dict[str, tuple[str, int | None]] = {}  # our name -> theirs, and which part
        self.shapes: dict[str, tuple[int, ...]] = {}
        for stored in file.names - {TABLE}:
            self._index(stored, file.shape_of(stored))

    def _index(self, stored: str, shape: tuple[int, ...]) -> None:
        index, tensor = _parts(stored)
        if tensor not in STACKED or len(shape) != 3:
            usual = usual_name(stored)
            self._at[usual], self.shapes[usual] = (stored, None), shape
            return
        for part in range(shape[0]):
            usual = layer_name(int(index), expert_name(part, STACKED[tensor]))
            self._at[usual], self.shapes[usual] = (stored, part), shape[1:]

    def read(self, name: str) -> torch.Tensor:
        tensor = torch.from_numpy(self._file.read(*self._at[name]))
        if self._interleaved and name.endswith(INTERLEAVED):
            return half_by_half(tensor, self._head_dim)
        return tensor


def open_gguf(path: Path) -> Checkpoint:
    file = open_gguf_file(path)
    shape = shape_of(file)
    return Checkpoint(shape, GgufWeights(file, shape))


def usual_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `layers.3.self_attn.q_proj.weight`; unknown names stay."""
    if name in TOP:
        return TOP[name]
    index, tensor = _parts(name)
    return layer_name(int(index), LAYER[tensor]) if tensor in LAYER else name


def _parts(name: str) -> tuple[str, str]:
    """`blk.3.attn_q.weight` -> "3", "attn_q.weight"; two empty ones for what is no layer's."""
    head, _, rest = name.partition(".")
    index, _, tensor = rest.partition(".")
    return (index, tensor) if head == "blk" and index.isdecimal() else ("", "")


def half_by_half(rows: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Undo llama.cpp's order of a head's rows: (0, D/2, 1, D/2 + 1, ...) back to 0 .. D - 1."""
    pairs = rows.view(-1, head_dim // 2, 2, rows.shape[-1])  # [heads, D / 2, 2, in]
    return pairs.transpose(1, 2).reshape(rows.shape)


def shape_of(file: GgufFile) -> ModelShape:
    """The metadata as a ModelShape. Raises ModelError for another family or a variant."""
    architecture = file.text("general.architecture")
    read = {family.gguf: name for name, family in FAMILIES.items() if not family.latent}
    if architecture not in read:
        known = ", ".join(read)
        raise ModelError(
            file.path, f"architecture {architecture!r} is not supported", hint=f"known: {known}"
        )
    if "token_embd.weight" not in file.names:
        raise ModelError(file.path, "lacks tensor token_embd.weight")
    family = read[architecture]
    _refuse_variants(file, family)
    return _shape(file, family)


def _shape(file: GgufFile, family: str) -> ModelShape:
    prefix = FAMILIES[family].gguf

    def whole(key: str, default: int | None = None) -> int:
        return int(file.number(f"{prefix}.{key}", default))

    hidden, heads = whole("embedding_length"), whole("attention.head_count")
    head_dim = whole("attention.key_length", hidden // max(heads, 1))
    if whole("rope.dimension_count", head_dim) != head_dim:
        raise ModelError(file.path, "rotates a part of each head only, which is not supported")
    return ModelShape(
        family=family,
        vocab_size=file.shape_of("token_embd.weight")[0],
        hidden_size=hidden,
        intermediate_size=whole("feed_forward_length", 1 if FAMILIES[family].experts else None),
        num_layers=whole("block_count"),
        num_heads=heads,
        num_kv_heads=whole("attention.head_count_kv", heads),
        head_dim=head_dim,
        rms_norm_eps=file.number(f"{prefix}.attention.layer_norm_rms_epsilon"),
        rope_theta=file.number(f"{prefix}.rope.freq_base", 10000.0),
        max_positions=whole("context_length"),
        tied_embeddings="output.weight" not in file.names,
        qk_norm=FAMILIES[family].qk_norm,
        rope_scaling=rope_scaling(file, prefix),
        experts=_experts(file, prefix) if FAMILIES[family].experts else None,
    )


def _experts(file: GgufFile, prefix: str) -> Experts:
    """llama.cpp makes the weights of every Qwen3 mixture sum to one, and has no dense layers."""
    return Experts(
        count=int(file.number(f"{prefix}.expert_count")),
        active=int(file.number(f"{prefix}.expert_used_count")),
        intermediate_size=int(file.number(f"{prefix}.expert_feed_forward_length")),
        normalised=True,
    )


def _refuse_variants(file: GgufFile, family: str) -> None:
    prefix = FAMILIES[family].gguf
    if file.number(f"{prefix}.expert_count", 0) > 0 and not FAMILIES[family].experts:
        raise ModelError(file.path, "is a mixture of experts, which is not supported")
