"""Autoregressive decoding on a CPU is no slower than transformers' on the same weights.

Each side runs in its own process, in turns: a second OpenMP team in one process slows both.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

import pytest

NEW = 96  # tokens
TURNS = 3
PROMPT = tuple(range(100, 140))


def ours(gguf: Path) -> float:
    """Tokens per second of the engine, prefill included; the second of two runs."""
    from ddtree.config import EngineConfig
    from ddtree.core.sequence import Output, Request
    from ddtree.engine.open import open_engine

    engine = open_engine(
        EngineConfig(model=str(gguf), mode="ar", drafter=None, dtype="bfloat16", context_length=256)
    )
    engine.start()
    for name in ("warm", "timed"):
        done = threading.Event()

        def on_output(output: Output, done: threading.Event = done) -> None:
            if output.finish is not None:
                done.set()

        began = time.perf_counter()
        engine.submit(Request(name, PROMPT, max_tokens=NEW), on_output)
        assert done.wait(300), engine.failure
        seconds = time.perf_counter() - began
    engine.stop(drain=True, timeout_s=10)
    return NEW / seconds


def theirs(gguf: Path) -> float:
    """Tokens per second of `generate` with eager attention; the second of two runs."""
    import torch
    from transformers import AutoModelForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, attn_implementation="eager"
        ).eval()  # type: ignore[no-untyped-call]
        prompt = torch.tensor([PROMPT])
        for _ in range(2):
            began = time.perf_counter()
            model.generate(prompt, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
            seconds = time.perf_counter() - began
    return NEW / seconds


@pytest.mark.slow
def test_the_engine_is_no_slower_than_transformers(smollm2_gguf: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(TURNS):
        for name, side in (("ours", ours), ("theirs", theirs)):
            with ProcessPoolExecutor(1, mp_context=spawn) as fresh:
                speeds[name].append(fresh.submit(side, smollm2_gguf).result())
    assert median(speeds["ours"]) >= median(speeds["theirs"]), speeds
