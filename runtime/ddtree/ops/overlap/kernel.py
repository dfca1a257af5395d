"""The two instructions of programmatic dependent launch."""

import triton
import triton.language as tl


@triton.jit
def start(OVERLAP: tl.constexpr):
    """Let the next kernel's programs take their places; wait for all kernels before this one."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@triton.jit
def fetch_ahead(pointer, mask, OVERLAP: tl.constexpr):
    """Bring the lines of `pointer` [any shape] into L2, without waiting; only for weights."""
    if OVERLAP:
        tl.inline_asm_elementwise(
            "{ .reg .pred p; setp.ne.b32 p, $2, 0; @p prefetch.global.L2 [$1]; mov.u32 $0, 0; }",
            "=r,l,r",
            [pointer, mask.to(tl.int32)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
