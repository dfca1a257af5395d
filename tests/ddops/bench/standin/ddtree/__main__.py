"""`python -m ddtree serve` without a model: the mock engine, with one plan for each variant.

`plans.json` in the working folder maps `ar`, `chain`, `ddtree-b8`, ... to a plan; `exit` in one
ends the process with that code before it listens.
"""

import argparse
import json
import os
import sys
from pathlib import Path


def variant() -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("--mode")
    parser.add_argument("--budget", default="16")
    parser.add_argument("--port", type=int)
    parser.add_argument("--graphs")
    return parser.parse_known_args()[0]


def serve() -> None:
    """What is loaded here takes half of the start, and options are asked for more often."""
    import asyncio

    from tests.ddops.bench.mock_engine import Plan, main

    asked = variant()
    name = f"ddtree-b{asked.budget}" if asked.mode == "ddtree" else asked.mode
    name += "-eager" if asked.graphs == "off" else ""
    said = Path("plans.json")
    plan = json.loads(said.read_text("utf-8")).get(name, {}) if said.exists() else {}
    if "exit" in plan:
        sys.stderr.write(plan.get("log", "no reason given") + "\n")
        sys.stderr.flush()
        os._exit(plan["exit"])
    once = plan.pop("die_once", None)  # dies only the first time it is started
    if once is not None and not Path(f"died-{name}").exists():
        Path(f"died-{name}").touch()
        plan["die_after"] = once
    plan["tokens"] = tuple(plan.get("tokens", Plan.tokens))
    asyncio.run(main(Plan(**{"mode": asked.mode, **plan}), asked.port))


if __name__ == "__main__":
    if "--help" in sys.argv:
        sys.exit("the mock takes whatever it is given, and lists no options")
    serve()
