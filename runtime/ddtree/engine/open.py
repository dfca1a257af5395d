"""From a configuration to a started-able engine on real weights."""

from __future__ import annotations

from ddtree.config import EngineConfig
from ddtree.engine.build import build
from ddtree.engine.loop import Engine
from ddtree.engine.resolve import resolve_device, resolve_dtype, use_threads
from ddtree.models.load import load_drafter, load_target
from ddtree.speculate.seam import Models

PROMPT_LOOKUP = "prompt-lookup"


def open_engine(config: EngineConfig) -> Engine:
    """Load what `config` names. Raises ModelError, CapacityError, ValueError."""
    use_threads(config)
    device = resolve_device(config)
    dtype = resolve_dtype(config, device)
    target = load_target(config.model, dtype, device)
    drafter = None
    if config.mode != "ar" and config.drafter not in (None, PROMPT_LOOKUP):
        drafter = load_drafter(config.drafter, target.shape, dtype, device)
    return build(config, Models(target, drafter))
