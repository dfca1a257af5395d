"""From a configuration to a started-able engine on real weights."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeVar

from ddtree.config import EngineConfig
from ddtree.engine.build import build
from ddtree.engine.loop import Engine
from ddtree.engine.ranks import Ranks, reason_of
from ddtree.engine.resolve import resolve_device, resolve_dtype, use_threads
from ddtree.models.load import load_drafter, load_target
from ddtree.models.split import Split
from ddtree.parallel.group import ALONE, Group
from ddtree.parallel.join import join
from ddtree.speculate.seam import Models

PROMPT_LOOKUP = "prompt-lookup"
_T = TypeVar("_T")


def open_engine(config: EngineConfig) -> Engine:
    """Load what `config` names. Raises ModelError, CapacityError, RankError, ValueError."""
    if config.ranks == 1:
        return on_a_thread(lambda: build(config, load_models(config))).result()
    resolve_device(config)  # before anything is started for nothing
    ranks = Ranks(config)
    try:
        engine = _open_with(ranks, config)
    except BaseException:
        ranks.kill()
        raise
    engine.lead(ranks)
    ranks.death.add_done_callback(lambda death: engine.fail(reason_of(death.result())))
    return engine


def _open_with(ranks: Ranks, config: EngineConfig) -> Engine:
    """This rank's engine, when the others have theirs. Raises what one of them failed with."""

    def load() -> Engine:
        group = join(0, config.ranks, ranks.store, resolve_device(config))
        models = load_models(config, group)
        ranks.agree()
        return build(config, models)

    loading = on_a_thread(load)
    # a rank that dies leaves this one in a collective that may not end
    wait([loading, ranks.death], return_when=FIRST_COMPLETED)
    if not loading.done():
        raise ranks.death.result()
    try:
        engine = loading.result()
    except RuntimeError as error:
        raise ranks.cause(error) from None
    return engine


def load_models(config: EngineConfig, group: Group = ALONE) -> Models:
    """Target and drafter where and as `config` says. Raises ModelError, ValueError."""
    use_threads(config)
    device = resolve_device(config, group.rank)
    dtype = resolve_dtype(config, device)
    split = Split(group, whole_experts=config.ep > 1)
    target = load_target(config.model, dtype, device, split)
    drafter = None
    if config.mode != "ar" and config.drafter not in (None, PROMPT_LOOKUP):
        drafter = load_drafter(config.drafter, target.shape, dtype, device, split)
    return Models(target, drafter)


def on_a_thread(make: Callable[[], _T]) -> Future[_T]:
    """What `make` returns or raises, made on a thread that ends.

    OpenMP keeps a team of threads for each thread that ever computed, and once those of all are
    more than the cores, every team sleeps between two products. A step on 2 cores then took 24 ms
    instead of 14.
    """
    made: Future[_T] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:  # noqa: BLE001 - raised by whoever asks for the result
            made.set_exception(error)

    threading.Thread(target=run, name="ddtree-load", daemon=True).start()
    return made
