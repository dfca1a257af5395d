"""Words of `ops.experts.packed` as operands of a product, in registers.

A product of K columns that share a scale is `tl.dot(numbers, x, excess)` times its `spread` scale.
"""

import triton
import triton.language as tl

# A place of two words at once: (x >> 4 p) & 15 in the last bits of a float whose ulp is 1. Without
# this a compiler takes 16-bit numbers one by one.
BFLOATS: tl.constexpr = tl.constexpr(
    tuple(
        f"{{ .reg .b32 bits; shr.u32 bits, $1, {4 * place};"
        " lop3.b32 $0, bits, 0x000F000F, 0x43004300, 0xEA; }"
        for place in range(4)
    )
)


@triton.jit
def numbers(words, PLACE: tl.constexpr, kind: tl.constexpr, PAIRED: tl.constexpr):
    """One place of every word, exactly, and without the slow conversion of an integer.

    In 16 bits it is more than -8 .. 7: the `excess` of a product takes that back. PAIRED is not for
    the interpreter, which has no assembler.
    """
    if PAIRED and kind == tl.bfloat16:
        exact = tl.inline_asm_elementwise(
            BFLOATS[PLACE], "=r,r", [words], dtype=tl.bfloat16, is_pure=True, pack=2
        )
    else:
        bits = (words >> (4 * PLACE)) & 15
        if kind == tl.bfloat16:
            exact = (bits | 0x4300).to(tl.bfloat16, bitcast=True)
        elif kind == tl.float16:
            exact = (bits | 0x6400).to(tl.float16, bitcast=True)
        else:
            exact = (bits.to(tl.int32) | 0x4B000000).to(tl.float32, bitcast=True) - 8388616.0
    return exact


@triton.jit
def excess(x, rows: tl.constexpr):
    """What a product of `numbers` and x begins with, rows all alike: shape [.., BN, BM] float32.

    A subtraction for each number was a quarter of an issue-bound kernel's instructions.
    """
    if x.dtype == tl.bfloat16:
        LESS: tl.constexpr = -136.0
    elif x.dtype == tl.float16:
        LESS: tl.constexpr = -1032.0
    else:
        LESS: tl.constexpr = 0.0
    return tl.dot(tl.full(rows, LESS, x.dtype), x, input_precision="ieee")


@triton.jit
def spread(scale, COLUMN: tl.constexpr, BM: tl.constexpr):
    """One column of scale [.., BN, 16] as [.., BN, BM] float32, exactly.

    Taken by a product, so that scales are staged like operands and arrive where the sums are.
    """
    if len(scale.shape) == 3:
        o_g = tl.arange(0, 16)[None, :, None] + tl.zeros([scale.shape[0], 16, BM], tl.int32)
    else:
        o_g = tl.arange(0, 16)[:, None] + tl.zeros([16, BM], tl.int32)
    return tl.dot(scale, (o_g == COLUMN).to(scale.dtype), input_precision="ieee")
