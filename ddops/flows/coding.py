"""A service is given problems; its answers are run in the sandbox of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx

from ddops.bench.client import Target
from ddops.bench.coding import Problems, judged, load_problems
from ddops.errors import CheckError
from ddops.flows.voice import Voice
from ddops.host import sandbox
from ddops.spec.matrix import Matrix
from ddops.spec.record import Coding

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


def coding(target: Target, matrix: Matrix, concurrency: int, voice: Voice) -> Coding | None:
    """Greedy, as many at once as the cell had requests in flight; None where none are asked."""
    if matrix.coding is None:
        return None
    found = load_problems(matrix.coding)
    bodies = [_body(target, one.question, matrix.coding.max_tokens) for one in found.problems]
    with voice.step(f"{len(bodies)} coding problems") as progress:
        progress(0, len(bodies))
        most = max(1, min(concurrency or _MOST, _MOST))
        answers = asyncio.run(_answers(target, bodies, most, matrix.timeout_s))
        solved = judged(found, answers, sandbox.run)
        progress(len(bodies), len(bodies))
    return solved


async def _answers(
    target: Target, bodies: Sequence[dict[str, Any]], most: int, timeout_s: float
) -> list[str]:
    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    turn = asyncio.Semaphore(most)
    async with httpx.AsyncClient(
        base_url=target.url, headers=headers, timeout=timeout_s, trust_env=False
    ) as session:
        return await asyncio.gather(*(_answer(session, turn, body) for body in bodies))


async def _answer(session: httpx.AsyncClient, turn: asyncio.Semaphore, body: dict[str, Any]) -> str:
    """An answer that does not come is an empty one: it does not pass."""
    async with turn:
        try:
            said = (await session.post("/v1/chat/completions", json=body)).json()
            return str(said["choices"][0]["message"]["content"] or "")
        except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError):
            return ""


def _body(target: Target, question: str, max_tokens: int) -> dict[str, Any]:
    return {
        "model": target.model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "temperature": 0.0,
    }
