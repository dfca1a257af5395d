"""From a bare box to real answers with one command: environment, unit, engine and model."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.box.box import Box
from tests.box.operator import Operator
from tests.box.test_env import Desk


@pytest.mark.slow
def test_a_bare_box_answers_with_the_real_model_after_one_command(
    operator: Operator, box: Box, smollm2_gguf: Path
) -> None:
    """The environment is the one that runs this test: torch and all, some 2 GB."""
    shutil.copy(smollm2_gguf, box.root / "srv" / "model.gguf")
    desk = Desk(operator, Path(sys.prefix))
    desk.inventory(
        "bare",
        22,
        box.address,
        environment={"source": sys.prefix},
        model={"name": "smollm2", "weights": {"source": "file:/srv/model.gguf"}},
        decoding={"mode": "ddtree", "budget": 8, "drafter": {"source": "bundled"}},
        limits={"context_length": 512},
    )
    done = desk.ddops("deploy", "bare", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout + done.stderr
    began = time.monotonic()
    assert "nothing to change" in desk.ddops("deploy", "bare", "--yes").stdout
    assert time.monotonic() - began < 5
    assert desk.ddops("diff", "bare").stdout == "no drift\n"
