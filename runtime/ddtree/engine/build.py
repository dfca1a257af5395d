"""From a configuration to an engine: models, caches sized for the device, scheduler."""

from __future__ import annotations

from typing import Literal

import torch

from ddtree.cache.pool import KvPool
from ddtree.config import EngineConfig, ModelShape
from ddtree.engine.budget import BudgetChooser, StepTimes
from ddtree.engine.company import Company
from ddtree.engine.errors import CapacityError
from ddtree.engine.geometry import prefill_chunk, step_budgets, tree_depth, tree_nodes
from ddtree.engine.graphs import Graphs
from ddtree.engine.lines import WIDTH, captured_forms
from ddtree.engine.loop import Engine
from ddtree.engine.prefill import fixed_seconds, warm
from ddtree.engine.prefiller import Prefiller
from ddtree.engine.runner import Runner
from ddtree.engine.scheduler import Capacity, Scheduler
from ddtree.engine.state import RowState
from ddtree.engine.stepper import Bucket, Decoding, Stepper
from ddtree.speculate.seam import Models, Pools

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)  # rows of the captured graphs; between them, padding


def build(config: EngineConfig, models: Models, *, lag: Literal[0, 1] | None = None) -> Engine:
    """An engine that is ready to `start`. Raises CapacityError when the cache does not fit.

    `lag`: whether the host reads a step while the next one runs; None: on CUDA, unless the host
    makes the trees.
    """
    runner = build_runner(config, models, lag=lag)
    capacity = plan_capacity(config, models, runner.lag)
    company = Company(runner.prefill_seconds, capacity.prefill_chunk)
    return Engine(config, runner, Scheduler(capacity, company))


def build_runner(
    config: EngineConfig, models: Models, *, lag: Literal[0, 1] | None = None
) -> Runner:
    """The device's side of an engine: all that a rank which is not the first has of one."""
    graphs = config.graphs != "off" and models.target.device.type == "cuda"
    if lag is None:
        lag = 1 if graphs and config.drafter != "prompt-lookup" else 0
    capacity = plan_capacity(config, models, lag)
    try:
        pools = _pools(config, models, (capacity.pages + 1) * config.page_size)
    except (RuntimeError, MemoryError) as error:
        raise CapacityError(f"a cache of {capacity.pages} pages does not fit: {error}") from error
    # a prompt's last line may be padded beyond its end
    per_row = -(-(config.context_length + max(capacity.reach, WIDTH)) // config.page_size)
    state = RowState(capacity.rows, per_row, config.context_length, models.target.device)
    decoding = Decoding(config.mode, tree_depth(config, models), step_budgets(config, models))
    recorder = Graphs() if graphs else None
    stepper = Stepper(models, pools, state, decoding, recorder)
    prefiller = Prefiller(models, pools, per_row)
    batches = [size for size in BATCHES if size < capacity.rows] + [capacity.rows]
    buckets = [Bucket(batch, budget) for batch in batches for budget in decoding.budgets]
    chooser = None
    with torch.inference_mode():
        if recorder is not None:
            forms = captured_forms(capacity.prefill_chunk, capacity.rows, per_row)
            prefiller.capture(forms, recorder)
            warm(prefiller, capacity.prefill_chunk)
            if config.drafter != "prompt-lookup":
                stepper.capture(buckets)
        prefill_seconds = fixed_seconds(prefiller)
        if config.adaptive:
            chooser = BudgetChooser(StepTimes(stepper.measure(buckets)), capacity.rows)
    return Runner(
        config, stepper, prefiller, lag=lag, chooser=chooser, prefill_seconds=prefill_seconds
    )


def _pools(config: EngineConfig, models: Models, slots: int) -> Pools:
    def pool(shape: ModelShape) -> KvPool:
        return KvPool(shape, slots, dtype=models.target.dtype, device=models.target.device)

    return Pools(
        target=pool(models.target.held),
        drafter=pool(models.drafter.held) if models.drafter else None,
        page_size=config.page_size,
    )


def plan_capacity(config: EngineConfig, models: Models, lag: Literal[0, 1]) -> Capacity:
    """Pages, rows and reach for this configuration.

    A step writes N nodes, and a drafter's block, past the cached positions; a step in flight may
    have moved those by D + 1.
    """
    path = tree_depth(config, models) + 1
    reach = max(tree_nodes(config, models), path)
    if models.drafter is not None:
        reach = max(reach, models.drafter.shape.block_size)
    reach += lag * path
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
        prefill_chunk=prefill_chunk(config, models),
        prefix_cache=config.prefix_cache,
    )
