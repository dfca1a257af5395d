"""A plain copy."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["COUNT"])
def copy(p_from, p_to, COUNT, BLOCK: tl.constexpr):
    """COUNT numbers. Grid (blocks,)."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p_to + o, tl.load(p_from + o, mask=o < COUNT), mask=o < COUNT)
