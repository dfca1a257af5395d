"""A server process with the engine's double: `python -m tests.runtime.server.process {json}`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from ddtree.server import log
from ddtree.server.exits import LoadError
from ddtree.server.listen import listen
from ddtree.server.run import Plan, serve
from ddtree.server.seam import Loaded
from ddtree.server.service import Identity
from tests.runtime.server.double import Double, endless, loaded


def main(asked: dict[str, Any]) -> int:
    def load() -> Loaded:
        time.sleep(asked.get("load_s", 0))
        if "load_error" in asked:
            raise LoadError(asked["load_error"], asked["exit_code"])
        engine = Double(endless, step_s=asked.get("step_s", 0.01), error=asked.get("error"))
        engine.dies_at = asked.get("dies_at")
        return loaded(engine)

    log.to_stderr()
    plan = Plan(Identity("double-model"), load, drain_timeout_s=asked.get("drain_s", 20))
    return serve(listen("127.0.0.1", 0), plan)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
