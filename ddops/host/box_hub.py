"""Sent to a box that has no aria2: download files of a hub repository with huggingface_hub.

`python -c TEXT`, with everything as JSON on standard input: it may hold a token.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from glob import escape


def end_with(parent: int) -> None:
    """Whoever started this may be killed: then nobody waits for it any more."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main() -> None:
    order = json.load(sys.stdin)
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    from huggingface_hub import snapshot_download

    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    snapshot_download(
        order["repo"],
        revision=order["commit"],
        local_dir=order["folder"],
        allow_patterns=[escape(name) for name in order["names"]],
        token=order["token"] or False,
        endpoint=order["endpoint"],
    )


if __name__ == "__main__":
    main()
