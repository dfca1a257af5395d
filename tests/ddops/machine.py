"""A box of its own for a test: state folder, port, stand-in engine, and the real `ddops`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from ddops.cli import app
from ddops.host.process import Process
from tests.checkout import ROOT

STANDIN = ROOT / "tests" / "ddops" / "standin"
WEIGHTS = b"weights of the stand-in"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def interpreter(folder: Path) -> Path:
    """A Python that finds the stand-in engine where it looks for `ddtree`."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{STANDIN}" exec "{sys.executable}" "$@"\n', "utf-8")
    script.chmod(0o755)
    return script


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def run_here(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> Done:
    """The command line, in this process, as if it had been started in `folder`."""
    out, err = StringIO(), StringIO()
    with (
        patch.dict(os.environ, env, clear=True),
        patch.object(sys, "stdin", StringIO()),
        patch.object(sys, "excepthook", sys.excepthook),
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = app.main(list(arguments))
    return Done(code, out.getvalue(), err.getvalue())


def started(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str]
) -> subprocess.Popen[str]:
    """The same in a process of its own, which can be killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "ddops", *arguments],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@dataclass
class Machine:
    """`folder` is the working folder, `home` the state folder."""

    folder: Path
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        (self.folder / "inventories").mkdir()
        self.box_home.mkdir(parents=True)
        self.python = interpreter(self.folder)
        self.model = self.folder / "model.gguf"
        self.model.write_bytes(WEIGHTS)
        self.inventory()

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def box_home(self) -> Path:
        return self.home / "boxes" / "stand"

    def inventory(self, **changes: Any) -> None:
        """Write inventories/stand.yaml; `changes` replace keys of its deployment."""
        deployment: dict[str, Any] = {
            "engine": "ddtree",
            "model": {"name": "stand-in", "weights": {"source": f"file:{self.model}"}},
            "decoding": {"mode": "ddtree", "budget": 16, "drafter": {"source": "bundled"}},
            "serving": {"port": self.port},
            "ready_timeout_s": 60,
        }
        text = yaml.safe_dump({"deployment": {**deployment, **changes}})
        (self.folder / "inventories" / "stand.yaml").write_text(text, "utf-8")

    def behave(self, **how: Any) -> None:
        (self.box_home / "behave.json").write_text(json.dumps(how), "utf-8")

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DDOPS_", "HF_"))}
        return {
            **kept,
            "DDOPS_HOME": str(self.home),
            "DDOPS_PYTHON": str(self.python),
            "DDOPS_SUPERVISOR": "background",
            "NO_COLOR": "1",
        }

    def ddops(self, *arguments: str, **env: str) -> Done:
        """`process` is the same in a process of its own."""
        return run_here(arguments, self.folder, {**self.environment, **env})

    def process(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return started(arguments, self.folder, {**self.environment, **env})

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ddops("status", "stand", "--json").stdout)
        return found

    def state(self) -> dict[str, Any]:
        """What the keeper wrote down."""
        found: dict[str, Any] = json.loads((self.box_home / "state.json").read_text("utf-8"))
        return found

    def close(self) -> None:
        """End what the test left running; the engine ends with its keeper."""
        if not (self.box_home / "state.json").exists():
            return
        state = self.state()
        for one in (state["keeper"], state["child"]):
            process = Process.load(one)
            handle = process.handle() if process else None
            if handle:
                handle.kill()
            while process and process.alive:
                time.sleep(0.01)
