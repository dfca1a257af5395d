"""A row of a table for each token."""

import triton
import triton.language as tl


@triton.jit
def embed(p_tokens, p_table, p_out, first, V, H: tl.constexpr, BH: tl.constexpr):
    """BH numbers of one row. Grid (tokens, pieces of a row)."""
    i_t = tl.program_id(0).to(tl.int64)
    o_h = tl.program_id(1) * BH + tl.arange(0, BH)
    token = tl.load(p_tokens + i_t).to(tl.int64) - first
    here = (token >= 0) & (token < V)
    row = tl.load(p_table + token * H + o_h, mask=here & (o_h < H), other=0.0)
    tl.store(p_out + i_t * H + o_h, row, mask=o_h < H)
