"""Which replicas a router's own box reaches. What a router says of them may be a guess until it
has asked: vLLM's takes a replica for healthy from the start, and asks one address a host."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ddops.spec.command import Run
from ddops.spec.deployment import Router

_PROBE = r"""
import json, sys, urllib.error, urllib.request
def asked(url):
    try:
        with urllib.request.urlopen(url + "/health", timeout=5) as answer:
            return None if answer.status == 200 else "answers %d" % answer.status
    except urllib.error.HTTPError as error:
        return "answers %d" % error.code
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))
print(json.dumps({url: asked(url) for url in sys.argv[1:]}))
"""


def command(python: str, router: Router) -> Run:
    argv = (python, "-c", _PROBE, *router.replicas.values())
    return Run(argv=argv, why="ask every replica whether it lives", timeout_s=60.0)


def parse(text: str, router: Router) -> dict[str, str]:
    """Of the replicas that are not reached: the name, and why."""
    said: Mapping[str, str | None] = json.loads(text)
    return {name: why for name, url in router.replicas.items() if (why := said[url]) is not None}
