"""Numbers in the place of logits: integers of the same order, weights and their running sum."""

import triton
import triton.language as tl


@triton.jit
def order_of(x):
    """int32 in the order of the floats x."""
    x = tl.where(x == 0.0, 0.0, x)
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def float_of(order):
    """The float whose order it is."""
    return (order ^ ((order >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def weight_of(x, top, scale):
    """2 to the power of the distance to the largest: 0 of -inf, whatever the largest is."""
    return tl.exp2((x - tl.where(top == float("-inf"), 0.0, top)) * scale)


@triton.jit
def reached(amount, goal, o):
    """The first of o with an amount where the running sum passes `goal`; else the last with one."""
    running = tl.cumsum(amount, 0)
    first = tl.min(tl.where((running > goal) & (amount > 0.0), o, 0x7FFFFFFF), 0)
    return tl.where(first < 0x7FFFFFFF, first, tl.max(tl.where(amount > 0.0, o, 0), 0))


@triton.jit
def order_at(exponent, top, scale):
    """The order of the logit whose weight is 2 to `exponent`, or a little less."""
    x = top + (exponent - 0.01) / scale
    return order_of(x - tl.abs(x) * 1e-6)


@triton.jit
def weight_at(key, top, scale, SHIFT: tl.constexpr):
    """The weight of the logits with this key."""
    order = (key << SHIFT) | tl.where(key < 0, (1 << SHIFT) - 1, 0)
    return weight_of(float_of(order), top, scale).to(tl.float64)
