"""From a configuration to a started-able engine on real weights."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ddtree.config import EngineConfig
from ddtree.engine.build import build
from ddtree.engine.loop import Engine
from ddtree.engine.resolve import resolve_device, resolve_dtype, use_threads
from ddtree.models.load import load_drafter, load_target
from ddtree.speculate.seam import Models

PROMPT_LOOKUP = "prompt-lookup"


def open_engine(config: EngineConfig) -> Engine:
    """Load what `config` names. Raises ModelError, CapacityError, ValueError.

    On a thread that ends: OpenMP keeps a team of threads for each thread that ever computed, and
    once those of all are more than the cores, every team sleeps between two products. A step on
    2 cores then took 24 ms instead of 14.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ddtree-load") as loading:
        return loading.submit(lambda: build(config, load_models(config))).result()


def load_models(config: EngineConfig) -> Models:
    """Target and drafter where and as `config` says. Raises ModelError, ValueError."""
    use_threads(config)
    device = resolve_device(config)
    dtype = resolve_dtype(config, device)
    target = load_target(config.model, dtype, device)
    drafter = None
    if config.mode != "ar" and config.drafter not in (None, PROMPT_LOOKUP):
        drafter = load_drafter(config.drafter, target.shape, dtype, device)
    return Models(target, drafter)
