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
from tests.ddops.machine import STANDIN, Done, run_here, started

HOME = "/root/.local/share/ddops/boxes/b300"
SECRET = "s3cret-of-the-box"


@dataclass
class Site:
    """An operator's project folder with one inventory, and the box that it describes."""

    operator: Operator
    box: Box
    standin: Path = STANDIN
    name: str = "b300"
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        paths = f"{self.standin}:{ROOT}"
        python = f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" "$@"\n'
        self.box.write("/srv/python", python, 0o755)
        self.box.write("/srv/model.gguf", "weights")
        self.box.write("/root/key", f"{SECRET}\n", 0o600)
        self.inventory()

    def inventory(
        self, *, reach: dict[str, Any] | None = None, state_dir: str | None = None, **changes: Any
    ) -> None:
        """`changes` replace keys of its deployment."""
        deployment: dict[str, Any] = {
            "engine": "ddtree",
            "model": {"name": "stand-in", "weights": {"source": "file:/srv/model.gguf"}},
            "decoding": {"mode": "ddtree", "budget": 16, "drafter": {"source": "bundled"}},
            "serving": {"api_key_file": "~/key"},
            "ready_timeout_s": 20,
        }
        about = {
            "groups": list(self.groups),
            "reach": {"via": "ssh", "host": self.box.address, "user": "root", **(reach or {})},
            "state_dir": state_dir,
            "python": "/srv/python",
            "deployment": {**deployment, **changes},
        }
        path = self.operator.home / "inventories" / f"{self.name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(about), "utf-8")

    def ddops(self, *words: str) -> Done:
        verb, *rest = words
        return run_here([verb, self.name, *rest], self.operator.home, self.environment)

    def start(self, verb: str, *words: str) -> subprocess.Popen[str]:
        return started([verb, self.name, *words], self.operator.home, self.environment)

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DDOPS_", "HF_"))}
        return {**kept, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}

    def deployed(self) -> str:
        done = self.ddops("deploy", "--yes")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ddops("status", "--json").stdout)
        return found
