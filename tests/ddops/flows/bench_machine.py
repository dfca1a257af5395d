"""A machine whose engine is the mock: deployed, with a small matrix, ready to be measured."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ddops.spec.record import Record
from tests.checkout import ROOT
from tests.ddops.machine import Done, Machine

STANDIN = ROOT / "tests" / "ddops" / "bench" / "standin"
VARIANTS = ("ar", "ddtree-b8")
QUICK = {"ttft": 0.02, "gap": 0.01, "tokens": [1, 4, 4, 4]}
AR = {**QUICK, "tokens": [1] * 13}
CELLS = [f"{name}.c{concurrency}.r1" for name in VARIANTS for concurrency in (1, 2)]


class BenchMachine(Machine):
    def __post_init__(self) -> None:
        super().__post_init__()
        paths = f"{STANDIN}:{ROOT}"
        script = f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" "$@"\n'
        self.python.write_text(script, "utf-8")
        self.matrix()
        self.plans()
        done = self.ddops("deploy", "stand", "--yes")
        assert done.returncode == 0, done.stderr

    def matrix(self, **changes: Any) -> None:
        variants = [
            {"name": "ar", "mode": "ar"},
            {"name": "ddtree-b8", "mode": "ddtree", "budget": 8},
        ]
        load = {"requests": 4, "warmup": 1, "max_tokens": 13}
        whole = {"name": "small", "variants": variants, "concurrency": [1, 2], "load": load}
        once = {"repeats": 1, "again": False, "timeout_s": 120}
        text = yaml.safe_dump({**whole, **once, **changes})
        (self.folder / "small.yaml").write_text(text, "utf-8")

    def plans(self, **by_variant: dict[str, Any]) -> None:
        """How the mock behaves, by variant; `_` stands for `-` in the name."""
        said = {name.replace("_", "-"): plan for name, plan in by_variant.items()}
        text = json.dumps({"ar": AR, "ddtree-b8": QUICK, **said})
        (self.box_home / "plans.json").write_text(text, "utf-8")

    def bench(self, *arguments: str) -> Done:
        return self.ddops("bench", "stand", "--matrix", "small.yaml", "--yes", *arguments)

    @contextmanager
    def benching(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """The same in a process of its own."""
        argv = ("bench", "stand", "--matrix", "small.yaml", "--yes", *arguments)
        with self.process(*argv) as process:
            try:
                yield process
            finally:
                process.kill()

    @property
    def run(self) -> Path:
        (folder,) = (self.folder / "results").glob("small-*")
        return folder

    @property
    def files(self) -> dict[str, bytes]:
        """Records and failures by name."""
        found = (self.folder / "results").glob("small-*/*.json")
        kept = [p for p in found if p.name not in ("run.json", "found.json", "environment.json")]
        return {path.name: path.read_bytes() for path in kept}

    def record(self, name: str) -> Record:
        return Record.model_validate_json((self.run / f"{name}.json").read_bytes())

    @property
    def good(self) -> list[str]:
        return sorted(name.removesuffix(".json") for name in self.files if "failure" not in name)

    @property
    def budget(self) -> int | None:
        """The budget the running engine was started with."""
        unit = json.loads((self.box_home / "unit.json").read_text("utf-8"))
        argv = unit["argv"]
        return int(argv[argv.index("--budget") + 1]) if "--budget" in argv else None


def eventually(holds: Callable[[], bool], timeout_s: float = 120.0) -> None:
    limit = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)
