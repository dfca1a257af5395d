"""What the routed experts take: a line through two measured points, over experts touched. Pure.

The line has an offset, so it holds between and near its points; elsewhere it is an extrapolation.
"""

from __future__ import annotations

from ddops.analysis.cost import floor
from ddops.analysis.cost.catalogue import processor
from ddops.spec.cost import FieldRecord, Processor, Target


def seconds(record: FieldRecord, target: Target, on: Processor, tokens: int) -> float:
    """Of all layers with experts; scaled by peak bandwidth from the box they were measured on."""
    first, second = record.moe
    at = [floor.touched(target, point.tokens) for point in record.moe]
    slope = (second.ms - first.ms) / (at[1] - at[0])
    ms = first.ms + slope * (floor.touched(target, tokens) - at[0])
    return ms / 1e3 * processor(record.moe_box).tb_s / on.tb_s
