"""The bundled engine with the real model: measured, packed, measured again, the same answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT
from tests.ddops.machine import Done, Machine

VARIANTS = [{"name": "ar", "mode": "ar"}, {"name": "ddtree-b8", "mode": "ddtree", "budget": 8}]


class Real(Machine):
    """Its engine is the checkout's own."""

    def inventory(self, **changes: Any) -> None:
        script = f'#!/bin/sh\nPYTHONPATH="{ROOT / "runtime"}" exec "{sys.executable}" "$@"\n'
        self.python.write_text(script, "utf-8")
        super().inventory(
            **{
                "model": {"name": "SmolLM2", "weights": {"source": f"file:{self.model}"}},
                "limits": {"context_length": 512, "max_running_requests": 2},
                "dtype": "float32",  # where every greedy answer has to be the same
                "ready_timeout_s": 300,
                **changes,
            }
        )

    def must(self, *words: str) -> Done:
        done = self.ddops(*words)
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def box(tmp_path: Path, smollm2_gguf: Path) -> Iterator[Real]:
    made = Real(tmp_path)
    made.model.unlink()
    made.model.symlink_to(smollm2_gguf)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_the_real_engine_gives_the_same_answers_again(box: Real) -> None:
    load = {"requests": 2, "warmup": 0, "max_tokens": 8}
    matrix = {"name": "real", "variants": VARIANTS, "concurrency": [1], "load": load}
    once = {"repeats": 1, "again": False, "timeout_s": 600}
    (box.folder / "real.yaml").write_text(yaml.safe_dump({**matrix, **once}), "utf-8")
    box.must("deploy", "stand", "--yes")
    box.must("bench", "stand", "--matrix", "real.yaml", "--yes")
    first = box.must("bundle", "create").stdout.strip()
    done = box.must("bundle", "replay", first, "--box", "stand", "--tolerance", "999", "--yes")
    again = done.stdout.splitlines()[0]
    held = ("bundle", "verify", first, "--level", "L6", "--replay", again, "--tolerance", "999")
    assert "holds: L0, L1, L3, L5, L6" in box.must(*held).stdout
