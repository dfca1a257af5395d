"""One real question through the public API, and its answer."""

from __future__ import annotations

import json
from typing import Any

from ddops.errors import ServiceError
from ddops.facts.look import api_key, way_to
from ddops.flows import gate
from ddops.flows.site import Site
from ddops.host.reply import Reply, Service, Unanswered
from ddops.spec.base import Word
from ddops.spec.deployment import Deployment

QUESTION = "What is the capital of France? Answer in one sentence."
MAX_TOKENS = 48
_TIMEOUT_S = 120.0


class Answer(Word):
    text: str
    tokens: int
    seconds: float


def ask(site: Site, deployment: Deployment) -> Answer | None:
    """None on a box that follows: it answers nobody."""
    if deployment.follows:
        return None
    serving = deployment.serving
    question = {
        "model": deployment.model.name,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0.0,
    }
    key = api_key(site.host, serving)
    service = Service(way_to(site.host, serving), key, _TIMEOUT_S)
    try:
        answer = service.post("/v1/chat/completions", question)
    except Unanswered as why:
        died = gate.ended(site, "was ready, then died at its first question")
        raise died or _wrong(site, f"no answer: {why}") from None
    if answer.status != 200:
        raise _wrong(site, f"it answers {answer.status}: {answer.text[:500]}")
    return _read(site, answer)


def _read(site: Site, answer: Reply) -> Answer:
    try:
        said: dict[str, Any] = json.loads(answer.text)
        message = said["choices"][0]["message"]
        # A model that thinks first may not have come to its answer yet.
        text = message["content"] or message.get("reasoning_content") or ""
        tokens = said["usage"]["completion_tokens"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise _wrong(site, f"its answer has another shape: {answer.text[:500]}") from None
    if not isinstance(text, str) or not text.strip():
        raise _wrong(site, "its answer is empty")
    return Answer(text=text.strip(), tokens=tokens, seconds=answer.seconds)


def _wrong(site: Site, what: str) -> ServiceError:
    return ServiceError(
        f"the service of box `{site.box.name}` is up, but the smoke test failed: {what}",
        hint=f"`ddops logs {site.box.name} -n 100`",
    )
