"""What a hub repository holds at a pinned revision: names, sizes, digests, addresses."""

from __future__ import annotations

import json
import re

from ddops.errors import WeightsError
from ddops.spec.command import Result, Run
from ddops.spec.observed import Offer, Offered
from ddops.spec.place import Place
from ddops.spec.source import Hub

# Runs as a process of its own, so that whatever the library raises arrives as one line of text.
# The token comes by the environment (HF_TOKEN), as the library documents it.
_SCRIPT = """
import json, sys
from huggingface_hub import HfApi, hf_hub_url
repo, revision = sys.argv[1:]
info = HfApi().model_info(repo, revision=revision, files_metadata=True)
print(json.dumps([{
    "name": file.rfilename,
    "url": hf_hub_url(repo, file.rfilename, revision=info.sha),
    "size": file.size,
    "sha256": file.lfs.sha256 if file.lfs else None,
} for file in info.siblings]))
"""
_OTHER_FORMATS = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".ot")
_NO_WEIGHTS = (".md", ".png", ".jpg", ".gitattributes", ".gitignore")


def command(place: Place, hub: Hub) -> Run:
    why = f"ask the hub what {hub.repo} holds"
    return Run(argv=(place.python, "-c", _SCRIPT, hub.repo, hub.revision), why=why, timeout_s=120.0)


def parse(result: Result, hub: Hub, source: str) -> Offer:
    if not result.ok:
        raise _refusal(result, hub)
    files = [Offered.model_validate(one) for one in json.loads(result.stdout)]
    safe = any(file.name.endswith(".safetensors") for file in files)
    dropped = (*_NO_WEIGHTS, *(_OTHER_FORMATS if safe else ()))
    return Offer(source=source, files=tuple(f for f in files if not f.name.endswith(dropped)))


def _refusal(result: Result, hub: Hub) -> WeightsError:
    # Of a chain of exceptions the last one is the library's own word.
    said = re.findall(r"^[\w.]*(?:Error|Exception)\b.*$", result.stderr, re.M)
    last = said[-1] if said else result.stderr.strip()
    hints = {
        "GatedRepo": "ask for access on its page, then set HF_TOKEN to your token",
        "RepositoryNotFound": "check the name; a private one needs HF_TOKEN",
        "RevisionNotFound": "check the revision after the `@`",
    }
    hint = next((text for word, text in hints.items() if word in last), "check the network")
    return WeightsError(
        f"the hub does not give {hub.repo} at {hub.revision}", detail=last[:500], hint=hint
    )
