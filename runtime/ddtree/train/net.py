"""The drafter as something to train: the layers of models/dflash.py with gradients, many blocks of
a sequence at once. Parameters bear the names of the checkpoint.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from ddtree.config import DrafterShape, ModelShape
from ddtree.layers.rotary import Angles, rotary_of, rotate
from ddtree.train.attention import Sight, attend

STD = 0.02  # of a new weight


class Norm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        exact = x.float()
        scale = (exact.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        out: torch.Tensor = (exact * scale * self.weight).to(x.dtype)
        return out


class Attention(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        hidden, size = shape.hidden_size, shape.head_dim
        queries, keys = shape.num_heads * size, shape.num_kv_heads * size
        self.size = size
        self.q_proj = nn.Linear(hidden, queries, bias=False)
        self.k_proj = nn.Linear(hidden, keys, bias=False)
        self.v_proj = nn.Linear(hidden, keys, bias=False)
        self.o_proj = nn.Linear(queries, hidden, bias=False)
        self.q_norm = Norm(size, shape.rms_norm_eps)
        self.k_norm = Norm(size, shape.rms_norm_eps)

    def forward(
        self,
        block: torch.Tensor,
        context: torch.Tensor,
        angles: tuple[Angles, Angles],
        sight: Sight,
    ) -> torch.Tensor:
        """Block [B, Q, H] over context [B, L, H] and itself; angles of the block, and of both."""
        both = torch.cat([context, block], 1)
        q = rotate(self.q_norm(self._heads(self.q_proj(block))), angles[0])
        k = rotate(self.k_norm(self._heads(self.k_proj(both))), angles[1])
        v = self._heads(self.v_proj(both))
        q, k, v = (x.transpose(1, 2).to(v.dtype) for x in (q, k, v))
        out: torch.Tensor = self.o_proj(attend(q, k, v, sight).transpose(1, 2).flatten(2))
        return out

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], -1, self.size)


class GatedMlp(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        hidden, inner = shape.hidden_size, shape.intermediate_size
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden_size, shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.hidden_size, shape.rms_norm_eps)
        self.mlp = GatedMlp(shape)

    def forward(
        self, x: torch.Tensor, context: torch.Tensor, angles: tuple[Angles, Angles], sight: Sight
    ) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), context, angles, sight)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class DrafterNet(nn.Module):
    """Float32 weights; run it under autocast where 16 bits are wanted."""

    def __init__(self, shape: DrafterShape, device: torch.device) -> None:
        super().__init__()
        layers = shape.layers
        self.shape = shape
        width = len(shape.target_layer_ids) * layers.hidden_size
        self.fc = nn.Linear(width, layers.hidden_size, bias=False)
        self.hidden_norm = Norm(layers.hidden_size, layers.rms_norm_eps)
        self.layers = nn.ModuleList(Layer(layers) for _ in range(layers.num_layers))
        self.norm = Norm(layers.hidden_size, layers.rms_norm_eps)
        self.rotary = rotary_of(layers, device)
        self.to(device)

    def forward(
        self,
        embeddings: torch.Tensor,  # [B, A, b, H] of the roots and the masks
        features: torch.Tensor,  # [B, L, F]
        anchors: torch.Tensor,  # [B, A] int64
        sight: Sight,
    ) -> torch.Tensor:
        """Hidden [B, A, b, H] after the last norm."""
        block = embeddings.shape[2]
        steps = torch.arange(block, device=anchors.device)
        places = (anchors.unsqueeze(2) + steps).flatten(1)  # [B, A b]
        before = torch.arange(features.shape[1], device=anchors.device).expand(len(anchors), -1)
        context = self.hidden_norm(self.fc(features))
        x = embeddings.flatten(1, 2).to(context.dtype)
        own = self.rotary(places, x.dtype)
        both = self.rotary(torch.cat([before, places], 1), x.dtype)
        for layer in self.layers:
            x = layer(x, context, (own, both), sight)
        out: torch.Tensor = self.norm(x).unflatten(1, (-1, block))
        return out


def draw_weights(net: DrafterNet, seed: int, loudness: torch.Tensor) -> None:
    """New weights. `loudness` [F] is how large each feature is: the fusion evens that out."""
    generator = torch.Generator().manual_seed(seed)
    quiet = 1 / math.sqrt(2 * net.shape.layers.num_layers)  # of what is added back to the stream
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if weight.dim() == 1:
                weight.fill_(1.0)
                continue
            ends = name.endswith(("o_proj.weight", "down_proj.weight"))
            drawn = torch.randn(weight.shape, generator=generator) * (STD * quiet if ends else STD)
            weight.copy_(drawn)
        net.fc.weight /= loudness.to(net.fc.weight)
