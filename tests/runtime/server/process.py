"""A server process whose engine's process has the double: `-m tests.runtime.server.process {json}`.

The engine's own is `-m tests.runtime.server.process {json} SOCKET`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from ddtree.config import EngineConfig
from ddtree.server import log
from ddtree.server.exits import LoadError
from ddtree.server.listen import listen
from ddtree.server.run import Plan, serve
from ddtree.server.service import Identity
from ddtree.server.worker import work
from tests.runtime.server.double import CONFIG, Double, endless, words


def main(asked: dict[str, Any]) -> int:
    log.to_stderr()
    plan = Plan(
        Identity("double-model"),
        CONFIG,
        words,
        drain_timeout_s=asked.get("drain_s", 20),
        worker=("-m", "tests.runtime.server.process", json.dumps(asked)),
    )
    return serve(listen("127.0.0.1", 0), plan)


def engine(asked: dict[str, Any], sock: int) -> int:
    def load(config: EngineConfig) -> Double:
        assert config == CONFIG, "it crosses as it is"
        time.sleep(asked.get("load_s", 0))
        if "load_error" in asked:
            raise LoadError(asked["load_error"], asked["exit_code"], asked.get("hint"))
        if "load_fault" in asked:
            raise RuntimeError(asked["load_fault"])
        engine = Double(endless, step_s=asked.get("step_s", 0.01), error=asked.get("error"))
        engine.dies_at = asked.get("dies_at")
        return engine

    return work(load, sock)


if __name__ == "__main__":
    _, first, *rest = sys.argv
    sys.exit(engine(json.loads(first), int(*rest)) if rest else main(json.loads(first)))
