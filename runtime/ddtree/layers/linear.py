"""A matrix product without bias, in the layout that the device multiplies fastest."""

from __future__ import annotations

import torch
from torch import nn

from ddtree.layers.norm import RmsNorm, Stream
from ddtree.ops.half_norm import Half
from ddtree.ops.linear import linear, linear_and_half

# oneDNN's blocked layout, made once at load, against F.linear, which blocks anew on every call.
# us, SmolLM2-135M's layer (qkv + out + gate_up + down) and head, Xeon with AMX, 2 threads:
#             layer M=1   M=9  M=17  M=33      head M=1    M=9  M=17   M=33
# bf16 plain     565      573   611   737           2123   2407  2517   3498
# bf16 packed    376      383   430   477           1318   1373  1669   1561
# f32 plain      490     1158  1343  1802           2893  11420  8601  12675
# f32 packed     678      846  1144  1563           2688   5355  6927  10086
# So bf16 packs everything. In f32 the narrow products lose more at M=1 than they gain in a
# verify; the wide ones (gate_up, head) gain 1.3x to 2.1x from M=9 on and lose little at M=1.
WIDE = 2  # out >= WIDE x in: packed in float32 too
ROWS = 17  # rows that oneDNN lays the weight out for; 64 measured the same, 1 slower from M=9 on


class Linear(nn.Module):
    """y = x W^T. `weight` is [out, in]; packed, it is kept in that layout only."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.packed = packs(weight)
        if self.packed:
            weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
        self.weight = weight  # no Parameter: inference only, and an opaque layout has no autograd

    def forward(self, x: torch.Tensor | Half, residual: torch.Tensor | None = None) -> torch.Tensor:
        """[..., in] -> [..., out], plus `residual`."""
        if not self.packed:
            return linear(x, self.weight, residual)
        assert isinstance(x, torch.Tensor), "norms are halved on CUDA alone"
        y: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, None, "none", [], "")
        return y if residual is None else y + residual

    def add(
        self, x: torch.Tensor, residual: torch.Tensor, norm: RmsNorm | None
    ) -> torch.Tensor | Stream:
        """[..., in] -> [..., out] plus `residual`; with half of `norm` where that may be halved."""
        if norm is None or not norm.halves:
            return self(x, residual)  # type: ignore[no-any-return]
        return Stream(*linear_and_half(x, self.weight, residual, norm.weight, norm.eps))


def packs(weight: torch.Tensor) -> bool:
    """Whether this weight is worth oneDNN's layout, and this build of torch has it."""
    built_in = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if weight.device.type != "cpu" or not built_in:
        return False
    if weight.dtype == torch.bfloat16:
        # without hardware bf16 oneDNN refuses the reorder
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32 and weight.shape[0] >= WIDE * weight.shape[1]
