"""Names for blocks of a prompt: equal keys mean equal tokens from the very first one on.

Keys and values of a position depend on all tokens before it, so a block's key is a hash of the
block and of the key before it. No torch.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import sha256

ROOT = b""  # the key before the first block


def extend_keys(keys: list[bytes], tokens: Sequence[int], page_size: int) -> None:
    """Append the keys of the full blocks of `tokens` that `keys` does not name yet."""
    for begin in range(len(keys) * page_size, len(tokens) - page_size + 1, page_size):
        block = array("q", tokens[begin : begin + page_size]).tobytes()
        keys.append(sha256((keys[-1] if keys else ROOT) + block).digest())
