"""An environment as a whole: every file with its digest, its packages, what was patched in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ddops.facts import installed
from ddops.facts.system import FLAGS, FLAGS_ARM
from ddops.host import box_scan
from ddops.spec.command import Run
from ddops.spec.environment import File, Manifest

_SCAN = Path(box_scan.__file__).read_text("utf-8")
_TORCH_CUDA = re.compile(r"^cuda\b[^=]*= *'([\d.]+)'", re.M)


def command(interpreter: str) -> Run:
    """`interpreter` is the environment's own."""
    return Run(
        argv=(interpreter, "-I", "-c", _SCAN),
        why="list the files of the environment",
        timeout_s=3600.0,
    )


def parse(text: str, *, origin: str | None = None) -> Manifest:
    """`origin` is the identity of what it was streamed from, if it was."""
    said = json.loads(text)
    flags = set(said.pop("cpu").split())
    texts = {one["path"]: one["text"] for one in said["texts"]}
    files = tuple(File.model_validate(one) for one in said.pop("files"))
    found = installed.read(files, texts, said["site"])
    cuda = _TORCH_CUDA.search(texts.get(f"{said['site']}/torch/version.py", ""))
    return Manifest(
        schema_version=1,
        origin=origin,
        cpu_flags=tuple(flag for flag in (*FLAGS, *FLAGS_ARM) if flag in flags),
        cuda=cuda[1] if cuda else None,
        files=files,
        packages=found.packages,
        patches=found.patches,
        **said,
    )
