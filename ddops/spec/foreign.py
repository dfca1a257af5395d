"""What another load client measured, beside a cell of ours: its own figures, not ours again.

No record: the requests behind it are not there, so nothing of it can be derived again, and no
speed-up or claim is made from it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ddops.spec.base import Word
from ddops.spec.tool import Tool


class Stated(Word):
    """A distribution as far as the tool states it."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


class Foreign(Word):
    """One result of one tool, in our words and units."""

    schema_version: Literal[1] = 1
    tool: Tool
    tool_version: str | None  # None: the file does not say
    file: str  # its name
    sha256: str  # of it
    model: str | None
    concurrency: int | None = Field(default=None, ge=1)  # asked; None: no limit
    rate: float | None = Field(default=None, gt=0)  # asked, requests a second; None: none
    completed: int
    failed: int | None
    output_tokens: int
    duration_s: float
    output_tok_s: float
    requests_s: float | None
    concurrency_achieved: float | None
    ttft_s: Stated
    tpot_s: Stated
    itl_s: Stated
    e2e_s: Stated
    accept: float | None


class Adopted(Word):
    """A foreign result in a run's folder, and the cell that it stands beside."""

    cell: str
    result: Foreign
