"""Load clients whose results can stand beside ours. Apart, for the command line reads it."""

from __future__ import annotations

from typing import Literal

Tool = Literal["aiperf", "sglang", "vllm"]
