"""A service is given problems; its answers are run in the sandbox of this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx

from ddops.bench.client import Target
from ddops.bench.coding import Problems, judged, load_problems
from ddops.errors import CheckError
from ddops.facts import health
from ddops.flows.voice import Voice
from ddops.host import sandbox
from ddops.spec.matrix import CodingAsked, Matrix
from ddops.spec.record import Coding

_TIMEOUT_S = 600.0
_MOST = 16  # answers at once: no measurement, so no need for more


def problems(matrix: Matrix) -> Problems | None:
    """Raises `CheckError` where nothing can be run that a model has written."""
    if matrix.coding is None:
        return None
    found = load_problems(matrix.coding)
    if why := sandbox.missing():
        raise CheckError(
            f"the answers to `{found.id}` are programs of a model, and there is no sandbox: {why}",
            hint="`apt-get install bubblewrap` on this machine, or remove `coding` from the matrix",
        )
    return found


def coding(target: Target, asked: CodingAsked, concurrency: int, voice: Voice) -> Coding:
    """Greedy, as many at once as the cell had requests in flight."""
    found = load_problems(asked)
    with (
        voice.step(f"{len(found.problems)} coding problems"),
        health.client(target.url, target.api_key, _TIMEOUT_S) as session,
        ThreadPoolExecutor(max(1, min(concurrency or _MOST, _MOST))) as pool,
    ):
        said = pool.map(
            lambda one: _answer(session, target, one.question, asked.max_tokens), found.problems
        )
        return judged(found, list(said), sandbox.run)


def _answer(session: httpx.Client, target: Target, question: str, max_tokens: int) -> str:
    """An answer that does not come is an empty one: it does not pass."""
    body = {
        "model": target.model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "temperature": 0.0,
    }
    try:
        said = session.post("/v1/chat/completions", json=body).json()
        return str(said["choices"][0]["message"]["content"] or "")
    except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError):
        return ""
