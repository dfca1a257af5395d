"""A long run is packed, checked, shown and compared in the memory that a part of it takes."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ddops.bench.metrics import derive
from ddops.spec import record_text
from ddops.spec.chunks import Chunks
from ddops.spec.record import Trace
from tests.ddops import records

MEMORY = 512 << 20  # bytes of each process
REQUESTS, LENGTH = 400, 5_000  # chunks: such a record is 55 MB long


def long_run(folder: Path, count: int, *, repeats: int = 1) -> Path:
    """A run in which `count` records are long; their requests are the same."""
    run = records.written(folder, troubled=False, repeats=repeats)
    of = records.matrix(repeats=repeats)
    dice, requests = random.Random(1), list[bytes]()
    for cell in records.cells(of)[:count]:
        plain = records.record(cell, of)
        if not requests:
            traces = tuple(_trace(plain.traces[0], dice) for _ in range(REQUESTS))
        metrics = derive(traces, 1e3, plain.counters_before, plain.counters_after, plain.load)
        head = plain.model_copy(update={"traces": (), "window_s": 1e3, "metrics": metrics})
        requests = requests or [*record_text.lines(head.model_copy(update={"traces": traces}))][1:]
        with (run / f"{cell.id}.json").open("wb") as file:
            file.writelines([next(record_text.lines(head)), *requests])
    return run


def _trace(like: Trace, dice: random.Random) -> Trace:
    at, times = 0.0, []
    for _ in range(LENGTH):
        at += dice.random() / 50
        times.append(round(at, 6))
    tokens = dice.choices((1, 2, 3), k=LENGTH)
    changes = {
        "chunks": Chunks(times, tokens),
        "first": times[0],
        "last": times[-1],
        "completion_tokens": sum(tokens),
    }
    return like.model_copy(update=changes)


def ddops(*words: str | Path, memory: int = MEMORY) -> str:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))

    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    line = [sys.executable, "-m", "ddops", *map(str, words)]
    done = subprocess.run(
        line, env=environment, preexec_fn=limit, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return long_run(tmp_path_factory.mktemp("long"), 1)


def test_a_record_of_55_mb_fits_in_half_a_gigabyte(run: Path, tmp_path: Path) -> None:
    long = run / "ar.c1.r1.json"
    assert long.stat().st_size > 50_000_000
    packed = Path(ddops("bundle", "create", run, "--out", tmp_path).strip())
    folder = tmp_path / packed.name.removesuffix(".tar.zst")
    assert (folder / "data/records" / long.name).read_bytes() == long.read_bytes()
    assert "8 of 8 records derived again" in ddops("bundle", "verify", packed)
    assert json.loads(ddops("bundle", "show", folder, "--json"))["cells"] == {"ok": 8}
    assert ddops("bundle", "diff", packed, folder).strip() == "no difference"
    assert "ar.c1" in ddops("compare", packed, run)


@pytest.mark.slow
def test_a_run_of_two_gigabytes_takes_no_more_memory(tmp_path: Path) -> None:
    run = long_run(tmp_path, 36, repeats=5)
    assert sum(path.stat().st_size for path in run.glob("*.json")) > 1_900_000_000
    packed = Path(ddops("bundle", "create", run, "--out", tmp_path).strip())
    assert "40 of 40 records derived again" in ddops("bundle", "verify", packed)
    assert json.loads(ddops("bundle", "show", packed, "--json"))["cells"] == {"ok": 8}
