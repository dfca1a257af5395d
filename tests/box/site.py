"""A project folder on this machine with one inventory, and the box behind SSH that it describes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.box.box import Box
from tests.box.operator import Operator
from tests.checkout import ROOT
from tests.ddops.machine import STANDIN

HOME = "/root/.local/share/ddops/boxes/b300"
SECRET = "s3cret-of-the-box"


@dataclass
class Site:
    """An operator's project folder with one inventory, and the box that it describes."""

    operator: Operator
    box: Box
    standin: Path = STANDIN

    def __post_init__(self) -> None:
        paths = f"{self.standin}:{ROOT}"
        python = f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" "$@"\n'
        self.box.write("/srv/python", python, 0o755)
        self.box.write("/srv/model.gguf", "weights")
        self.box.write("/root/key", f"{SECRET}\n", 0o600)
        self.inventory()

    def inventory(self, **changes: Any) -> None:
        deployment: dict[str, Any] = {
            "engine": "ddtree",
            "model": {"name": "stand-in", "weights": {"source": "file:/srv/model.gguf"}},
            "decoding": {"mode": "ddtree", "budget": 16, "drafter": {"source": "bundled"}},
            "serving": {"api_key_file": "~/key"},
            "ready_timeout_s": 20,
        }
        about = {
            "reach": {"via": "ssh", "host": self.box.address, "user": "root"},
            "python": "/srv/python",
            "deployment": {**deployment, **changes},
        }
        path = self.operator.home / "inventories" / "b300.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(about), "utf-8")

    def ddops(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        with self.start(verb, *words) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, verb: str, *words: str) -> subprocess.Popen[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("DDOPS_", "HF_"))}
        return subprocess.Popen(
            [sys.executable, "-m", "ddops", verb, "b300", *words],
            cwd=self.operator.home,
            env={**env, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def deployed(self) -> str:
        done = self.ddops("deploy", "--yes")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ddops("status", "--json").stdout)
        return found
