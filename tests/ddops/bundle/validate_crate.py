"""roc-validator without a network: a program of its own, run in a venv of its own.

The one page it asks for is the context, and gets that which the library `rocrate` ships: of 1.3,
which has every term of 1.2. Of Process Run Crate's profile only its own checks count: it inherits
those of 1.1, which a crate of 1.2 cannot satisfy.

    python validate_crate.py CONTEXT CRATE
"""

from __future__ import annotations

import io
import sys
import urllib.request
from email.message import Message
from pathlib import Path
from urllib.response import addinfourl

import requests

CONTEXT = Path(sys.argv[1]).read_bytes()
TYPE = "application/ld+json"


class Shipped(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> addinfourl:  # type: ignore[override]
        headers = Message()
        headers["Content-Type"] = TYPE
        answer = addinfourl(io.BytesIO(CONTEXT), headers, req.full_url, 200)
        answer.msg = "OK"  # type: ignore[attr-defined]
        return answer


def send(
    self: requests.adapters.HTTPAdapter, request: requests.PreparedRequest, **_: object
) -> requests.Response:
    answer = requests.Response()
    answer.status_code, answer.url, answer.request = 200, request.url or "", request
    answer.raw, answer.headers["Content-Type"] = io.BytesIO(CONTEXT), TYPE
    return answer


def main() -> None:
    urllib.request.install_opener(urllib.request.build_opener(Shipped()))
    requests.adapters.HTTPAdapter.send = send  # type: ignore[method-assign,assignment]
    from rocrate_validator import models, services

    for profile in ("ro-crate-1.2", "process-run-crate-0.5"):
        settings = services.ValidationSettings(
            rocrate_uri=sys.argv[2],
            profile_identifier=profile,
            requirement_severity=models.Severity.REQUIRED,
            disable_inherited_profiles_issue_reporting=profile.startswith("process"),
            no_cache=True,
        )
        issues = services.validate(settings).get_issues()
        told = "; ".join(f"{issue.check.identifier} {issue.message}" for issue in issues)
        sys.stdout.write(f"{profile}: {told or 'valid'}\n")


if __name__ == "__main__":
    main()
