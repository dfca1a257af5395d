"""Starts the mock engine as a process and says where it listens."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ddops.bench.client import Target
from tests.ddops.bench.mock_engine import Plan

_SCRIPT = Path(__file__).with_name("mock_engine.py")


@contextmanager
def serving(plan: Plan) -> Iterator[Target]:
    argv = [sys.executable, str(_SCRIPT), json.dumps(asdict(plan))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            yield Target(url=f"http://127.0.0.1:{port}", model="mock")
        finally:
            process.kill()
