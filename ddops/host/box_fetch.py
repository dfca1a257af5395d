"""Sent to a box as text when it has no curl: download URL to PART, going on where PART ends.

`python3 -c TEXT URL PART`, with a curl configuration on standard input that may hold a token.
Nothing but the standard library, and no word that Python 3.9 does not know.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

TRIES = 8  # in a row without a single new byte
_LONGEST_WAIT_S = 30.0
_AGAIN = {408, 425, 429, 500, 502, 503, 504}


def pull(url: str, part: Path, token: str | None) -> None:
    have = size(part)
    ask = Request(url)
    if token:
        ask.add_unredirected_header("Authorization", token)  # stays when redirected elsewhere
    if have:
        ask.add_header("Range", f"bytes={have}-")
    try:
        answer = urlopen(ask, timeout=30)
    except HTTPError as error:
        if error.code == 416 and have:
            return
        expired = error.code == 403 and error.url != url  # a signed link behind a redirect
        if error.code in _AGAIN or expired:
            raise
        sys.exit(f"the server answers {error.code}")
    with answer, part.open("ab" if answer.status == 206 else "wb", buffering=0) as file:
        left = int(answer.headers.get("content-length", -1))
        while data := answer.read1(1 << 16):  # what has arrived: a kill loses nothing
            file.write(data)
            left -= len(data)
        if left > 0:
            raise OSError("the connection broke")


def size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def main(url: str, part: Path) -> None:
    found = re.search(r'"Authorization: (.*)"', sys.stdin.read())
    tries = 0
    while True:
        before = size(part)
        try:
            return pull(url, part, found[1] if found else None)
        except OSError as error:
            tries = 0 if size(part) > before else tries + 1
            if tries == TRIES:
                sys.exit(str(error))
        time.sleep(min(2.0**tries / 4, _LONGEST_WAIT_S) if tries else 0.0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
