"""The numbers that a bottleneck is told by."""

from __future__ import annotations

from pydantic import Field

from ddops.spec.base import Word


class Threshold(Word):
    value: float = Field(gt=0, le=1)
    reason: str = Field(min_length=20)


class Thresholds(Word):
    """Data in `ddops/analysis/bottleneck.yaml`."""

    busy: Threshold  # a GPU is, by its driver's word
    little_power: Threshold
    much_power: Threshold
    share: Threshold  # of a step, that makes something its limit
    core: Threshold  # one thread works without a pause
    all_cores: Threshold  # every core does
