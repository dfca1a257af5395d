"""Whether modules that are installed can be imported: what they need themselves may not be there.

Slow where one of them loads torch: 2 to 5 seconds.
"""

from __future__ import annotations

import json
from typing import Final

from ddops.spec.command import Result, Run

LIMIT_S: Final = 120
# A crash and the time limit end the process: so a name is written before its module is imported.
# What a module prints itself goes elsewhere.
_PROBE = r"""
import faulthandler, importlib, json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True)
for name in sys.argv[2:]:
    print(json.dumps([name, None]), file=out, flush=True)
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(json.dumps([name, f"{type(error).__name__}: {error}"]), file=out, flush=True)
print("[]", file=out, flush=True)
os._exit(0)
"""


def command(interpreter: str, modules: tuple[str, ...], limit_s: float = LIMIT_S) -> Run:
    argv = (interpreter, "-B", "-c", _PROBE, str(limit_s), *modules)
    return Run(argv=argv, why="import what the engine needs", timeout_s=limit_s + 60)


def parse(result: Result) -> dict[str, str]:
    """The modules that cannot be imported, each with its reason in one line."""
    told = [json.loads(line) for line in result.stdout.splitlines()]
    found = {name: " ".join(why.split()) for name, why in filter(None, told) if why}
    if told and told[-1]:
        found.setdefault(told[-1][0], _end(result))
    return found


def _end(result: Result) -> str:
    last = (result.stderr.strip().splitlines() or [f"exit code {result.code}"])[-1]
    timed_out = "Timeout (" in result.stderr
    return "it did not end in time" if timed_out else f"it ended Python: {last}"
