"""From a configuration to an engine: models, caches sized for the device, scheduler."""

from __future__ import annotations

from ddtree.cache.pool import KvPool
from ddtree.config import EngineConfig, ModelShape
from ddtree.engine.errors import CapacityError
from ddtree.engine.loop import Engine
from ddtree.engine.runner import Runner, tree_depth, tree_nodes
from ddtree.engine.scheduler import Capacity, Scheduler
from ddtree.speculate.seam import Models, Pools


def build(config: EngineConfig, models: Models) -> Engine:
    """An engine that is ready to `start`. Raises CapacityError when the cache does not fit."""
    capacity = plan_capacity(config, models)
    slots = (capacity.pages + 1) * config.page_size

    def pool(shape: ModelShape) -> KvPool:
        return KvPool(
            shape.num_layers,
            slots,
            shape.num_kv_heads,
            shape.head_dim,
            dtype=models.target.dtype,
            device=models.target.device,
        )

    try:
        pools = Pools(
            target=pool(models.target.shape),
            drafter=pool(models.drafter.shape.layers) if models.drafter else None,
            page_size=config.page_size,
        )
    except (RuntimeError, MemoryError) as error:
        raise CapacityError(f"a cache of {slots} positions does not fit: {error}") from error
    return Engine(config, Runner(config, models, pools), Scheduler(capacity))


def plan_capacity(config: EngineConfig, models: Models) -> Capacity:
    """Pages, rows and reach for this configuration.

    A step writes N nodes, and a drafter's block, past the cached positions.
    """
    reach = max(tree_nodes(config, models), tree_depth(config, models) + 1)
    if models.drafter is not None:
        reach = max(reach, models.drafter.shape.block_size)
    if config.kv_tokens is not None:
        pages = -(-config.kv_tokens // config.page_size)
    else:
        pages = config.max_running_requests * -(
            -(config.context_length + reach) // config.page_size
        )
    return Capacity(
        pages=pages,
        page_size=config.page_size,
        rows=config.max_running_requests,
        reach=reach,
        prefill_chunk=config.prefill_chunk,
    )
