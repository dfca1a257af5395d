"""The modes of one pair side by side, each on its own engine: speed, accept, and equal tokens."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from ddtree.config import EngineConfig, Mode
from ddtree.core.sequence import Output, Request
from ddtree.engine.build import build
from ddtree.engine.loop import Engine
from ddtree.engine.open import load_models, on_a_thread
from ddtree.speculate.seam import Models
from ddtree.stepbench.report import header

Prompts = list[tuple[int, ...]]


@dataclass(frozen=True)
class Variant:
    mode: Mode
    budget: int = 1
    adaptive: bool = False
    graphs: bool = True

    @property
    def name(self) -> str:
        kind = "adaptive" if self.adaptive else self.mode
        return (
            kind
            + (f":{self.budget}" if self.mode == "ddtree" else "")
            + "/eager" * (not self.graphs)
        )


@dataclass(frozen=True)
class Asked:
    """What every variant answers."""

    prompts: Prompts
    max_tokens: int
    concurrency: int
    ends: frozenset[int]  # none: every answer has max_tokens
    repeats: int


@dataclass(frozen=True)
class Speed:
    """One repeat. Rates are tokens per second."""

    output: float  # all tokens over the wall time, prefill included
    decode: float  # tokens after the first over the time after it: one request's own rate
    accept: float | None  # tokens a verify step, bonus included; None: nothing was verified
    tokens: int
    seconds: float


def parse(text: str) -> Variant:
    """`ar`, `chain`, `ddtree:16`, `adaptive:64`, each also `/eager`. Raises ValueError."""
    plain, _, eager = text.partition("/")
    kind, _, budget = plain.partition(":")
    modes: dict[str, Mode] = {"ar": "ar", "chain": "chain", "ddtree": "ddtree"}
    mode = modes.get(kind, "ddtree" if kind == "adaptive" else None)
    tree = mode == "ddtree"
    if mode is None or eager not in ("", "eager") or tree != budget.isdigit():
        raise ValueError(f"`{text}` is none of ar, chain, ddtree:N, adaptive:N; each also /eager")
    return Variant(mode, int(budget) if tree else 1, kind == "adaptive", not eager)


def run(base: EngineConfig, variants: list[Variant], asked: Asked) -> dict[str, Any]:
    """A row a variant, ready for JSON; in turns, so that a drift of the machine hits all of them.

    `differing` counts answers that are not the first variant's first ones. Raises ModelError,
    CapacityError, ValueError.
    """
    models = on_a_thread(lambda: load_models(replace(base, mode="ddtree"))).result()
    speeds: dict[Variant, list[Speed]] = {variant: [] for variant in variants}
    differing = dict.fromkeys(variants, 0)
    expected: list[list[int]] | None = None
    for _ in range(asked.repeats):
        for variant in variants:
            got, speed = _measure(models, base, variant, asked)
            expected = got if expected is None else expected
            speeds[variant].append(speed)
            differing[variant] += sum(a != b for a, b in zip(got, expected, strict=True))
    rows = [
        {
            "name": variant.name,
            **asdict(variant),
            "output_tok_s": median(speed.output for speed in speeds[variant]),
            "decode_tok_s": median(speed.decode for speed in speeds[variant]),
            "accept": speeds[variant][-1].accept,
            "differing": differing[variant],
            "answers": len(asked.prompts) * asked.repeats,
            "repeats": [asdict(speed) for speed in speeds[variant]],
        }
        for variant in variants
    ]
    return {
        **header("modes", models.target.device),
        "dtype": str(models.target.dtype).removeprefix("torch."),
        "prompts": len(asked.prompts),
        "max_tokens": asked.max_tokens,
        "concurrency": asked.concurrency,
        "modes": rows,
    }


def table(document: dict[str, Any]) -> str:
    """The document as lines to read; ratios are to the first variant's decode rate."""
    rows = document["modes"]
    lines = [f"{'mode':<16} {'tok/s':>8} {'decode':>8} {'ratio':>6} {'accept':>7} {'differ':>9}"]
    for row in rows:
        accept = "-" if row["accept"] is None else f"{row['accept']:.2f}"
        ratio = row["decode_tok_s"] / rows[0]["decode_tok_s"]
        lines.append(
            f"{row['name']:<16} {row['output_tok_s']:>8.1f} {row['decode_tok_s']:>8.1f} "
            f"{ratio:>5.2f}x {accept:>7} {row['differing']:>4}/{row['answers']}"
        )
    return "\n".join(lines)


def _measure(
    models: Models, base: EngineConfig, variant: Variant, asked: Asked
) -> tuple[list[list[int]], Speed]:
    config = replace(
        base,
        mode=variant.mode,
        drafter=None if variant.mode == "ar" else base.drafter,
        budget=variant.budget,
        adaptive=variant.adaptive,
        graphs="auto" if variant.graphs else "off",
        max_running_requests=asked.concurrency,
        prefix_cache=False,  # else the warm-up would have prefilled the prompts
    )
    own = models if variant.mode != "ar" else Models(models.target, None)
    engine = on_a_thread(lambda: build(config, own)).result()
    engine.start()
    try:
        _answer(engine, "warm", asked)  # kernels of every shape are compiled here, not in the time
        before = engine.stats().speculation
        answers, decode, seconds = _answer(engine, "timed", asked)
        after = engine.stats().speculation
    finally:
        engine.stop(drain=True, timeout_s=60)
    steps = after.verify_steps - before.verify_steps
    accept = 1 + (after.accepted - before.accepted) / steps if steps else None
    tokens = sum(map(len, answers))
    return answers, Speed(tokens / seconds, decode, accept, tokens, seconds)


def _answer(engine: Engine, name: str, asked: Asked) -> tuple[list[list[int]], float, float]:
    """Every prompt's tokens, the mean decode rate of a request, and the wall time."""
    answers: list[list[int]] = [[] for _ in asked.prompts]
    times: list[list[float]] = [[] for _ in asked.prompts]
    free = threading.Semaphore(asked.concurrency)

    def submit(i: int, prompt: tuple[int, ...]) -> None:
        def on_output(output: Output) -> None:
            if output.tokens:
                answers[i].extend(output.tokens)
                times[i].append(time.perf_counter())
            if output.finish is not None:
                free.release()

        request = Request(f"{name}-{i}", prompt, asked.max_tokens, stop_token_ids=asked.ends)
        engine.submit(request, on_output)

    began = time.perf_counter()
    for i, prompt in enumerate(asked.prompts):
        free.acquire()
        submit(i, prompt)
    for _ in range(asked.concurrency):
        free.acquire()
    seconds = time.perf_counter() - began
    if engine.failure is not None:
        raise RuntimeError(engine.failure)
    after_first = sum(len(answer) - 1 for answer in answers)
    decoding = sum(heard[-1] - heard[0] for heard in times if heard)
    return answers, after_first / decoding if decoding else 0.0, seconds
