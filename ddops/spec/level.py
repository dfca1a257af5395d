"""How much of a bundle is checked. No pydantic: the command line is made of it."""

from __future__ import annotations

from typing import Final, Literal, get_args

Level = Literal["L0", "L1", "L2", "L3", "L4", "L5", "L6"]
"""Each includes L0 to L3 before it, as far as there is a signature.

L0 structure and schema, L1 hashes, L2 signature, L3 numbers derived again from the requests,
L4 a box is what the bundle's was, L5 a replay came out alike, L6 a replay gave the same answers.
"""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)

ALONE: Final[Level] = "L3"
"""The last level that needs nothing but the bundle."""

TOLERANCE: Final = 0.1
"""How far off a number of a replay may be: docs/bundle.md."""
