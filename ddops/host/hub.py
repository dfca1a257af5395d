"""The hub that holds the weights: what a repository has, and where the bytes of a file are now.

Asked from this machine alone. A box gets addresses that are signed for one file; the token stays.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx

from ddops.errors import WeightsError
from ddops.host.patience import Again, attempts

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo
    from huggingface_hub.errors import HfHubHTTPError

_BUSY = {408, 425, 429, 500, 502, 503, 504}
_TOLD = re.compile(r"\bt\s*=\s*(\d+)")  # of a `RateLimit` header: seconds until the window ends
_TIMEOUT_S = 30.0
MARGIN_S = 30.0  # before its end a signed address is replaced: a 403 costs a connection

T = TypeVar("T")


def endpoint() -> str:
    """`HF_ENDPOINT` names a mirror."""
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def token() -> str | None:
    """`HF_TOKEN`, else what `hf auth login` left. Never one that a header could not carry."""
    from huggingface_hub import get_token

    found = (get_token() or "").strip()
    return found if re.fullmatch(r"[\w.-]+", found) else None


def token_for(url: str) -> str | None:
    """Only for the hub's own addresses."""
    return token() if url.startswith(f"{endpoint()}/") else None


def listing(repo: str, revision: str) -> ModelInfo:
    """Commit, names, sizes, digests. Raises `WeightsError`."""
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint(), token=token() or False)
    what = f"{repo} at {revision}"
    return patiently(
        what,
        lambda: _asked(
            what,
            lambda: api.model_info(
                repo, revision=revision, files_metadata=True, timeout=_TIMEOUT_S
            ),
        ),
    )


def address(repo: str, commit: str, name: str) -> str:
    from huggingface_hub import hf_hub_url

    return hf_hub_url(repo, name, revision=commit, endpoint=endpoint())


def location(url: str) -> str:
    """Where the bytes of `url` are: signed for a while if it is not the hub itself.

    Raises `WeightsError` for what asking again does not change, else `Again`.
    """
    from huggingface_hub import get_hf_file_metadata

    found = _asked(
        url, lambda: get_hf_file_metadata(url, token=token_for(url) or False, timeout=_TIMEOUT_S)
    )
    return found.location


def lasts(url: str) -> float:
    """Seconds that a signed address is good for new connections, less a margin."""
    query = {name.lower(): values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
    try:
        if "x-amz-expires" in query:
            signed = datetime.strptime(query["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            left = signed.timestamp() + float(query["x-amz-expires"]) - time.time()
        else:
            left = float(query["expires"]) - time.time()
    except (KeyError, ValueError):
        return inf
    return left - MARGIN_S if left > 2 * MARGIN_S else inf  # a refusal will tell


def patiently(what: str, ask: Callable[[], T]) -> T:
    """`ask` again while it raises `Again`. Raises `WeightsError` when that does not end."""
    try:
        for attempt in attempts():
            with attempt:
                return ask()
    except Again as error:
        raise WeightsError(
            f"the hub does not give {what}: {error}",
            hint="wait some minutes, then run the same command again; a token raises its limits"
            if "429" in str(error)
            else "check the network, then run the same command again",
        ) from None
    raise AssertionError("an attempt returns or raises")


def _asked(what: str, ask: Callable[[], T]) -> T:
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return ask()
    except HfHubHTTPError as error:
        raise _refusal(what, error) from None
    except (httpx2.HTTPError, httpx.HTTPError, ConnectionError, TimeoutError) as error:
        raise Again(str(error) or type(error).__name__) from None


def _refusal(what: str, error: HfHubHTTPError) -> Exception:
    answer = error.response
    if answer.status_code in _BUSY:
        told = _TOLD.search(answer.headers.get("ratelimit", ""))
        wait = answer.headers.get("retry-after") or (told[1] if told else "")
        return Again(f"it answers {answer.status_code}", float(wait) if wait.isdigit() else None)
    return _verdict(what, error)


def _verdict(what: str, error: HfHubHTTPError) -> WeightsError:
    """401, 403 and 404 each mean several things: the library's own names tell them apart."""
    status, name = error.response.status_code, type(error).__name__
    reason, hint = {
        ("GatedRepoError", 401): (
            "it is gated, and no token was shown",
            "ask for access on its page, then set HF_TOKEN to a token of that account",
        ),
        ("GatedRepoError", 403): (
            "it is gated, and the token's account has no access to it",
            "ask for access on its page; it may take until its owner has answered",
        ),
        ("RepositoryNotFoundError", status): (
            "there is no such repository, or it is private",
            "check the name; a private one needs HF_TOKEN",
        ),
        ("RevisionNotFoundError", status): (
            "the repository has no such revision",
            "check the revision after the `@`",
        ),
        ("RemoteEntryNotFoundError", status): (
            "the repository has no such file at this commit",
            "check the revision after the `@`",
        ),
    }.get((name, status)) or {
        401: ("it does not accept the token", "set HF_TOKEN to a valid token, or unset it"),
        403: (
            "the token lacks a right",
            "give the token read access to this repository; a fine-grained one also needs"
            " the right to read public gated repositories",
        ),
        404: ("it is not there", "check `source`"),
    }.get(status, ("it refuses", "check `source`, and `HF_ENDPOINT` if it is set"))
    return WeightsError(
        f"the hub does not give {what}: {reason} ({status})",
        detail=(error.server_message or "")[:500] or None,
        hint=hint,
    )
