"""What a bundle holds, file by file, made from a run and what was seen around it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from ddops.analysis.claims import Claim
from ddops.bundle import packages
from ddops.spec.base import Word
from ddops.spec.bundle import BUNDLE_SCHEMA_VERSION, BundleInfo, Redaction, WeightsFile, WeightsPart
from ddops.spec.deployment import Deployment, Weights
from ddops.spec.environment import Manifest
from ddops.spec.packages import Environment
from ddops.spec.record import Record
from ddops.spec.run import Run

REPLAY: Final = "ddops bundle replay . --box BOX"
BY_HAND: Final = (
    "ddops deploy data/box.yaml --yes && ddops bench data/box.yaml --matrix data/matrix.yaml --yes"
)


@dataclass(frozen=True)
class Source:
    """A run, and what was seen around it; `text` is its run.json as it lies on disk."""

    run: Run
    text: str
    records: Mapping[str, Record]
    environment: Environment | None
    manifest: Manifest | None  # of the environment, where one was streamed to the box
    weights: tuple[WeightsPart, ...]  # as they lay on the box; empty: nobody looked
    ddops_version: str


def info(source: Source) -> BundleInfo:
    run = source.run
    return BundleInfo(
        schema_version=BUNDLE_SCHEMA_VERSION,
        name=f"{run.box}-{run.matrix.name}-{run.fingerprint[:8]}",
        ddops_version=source.ddops_version,
        commit=run.sessions[-1].commit if run.sessions else None,
        created=max(record.started_at for record in source.records.values()),
        box=run.box,
        matrix=run.matrix.name,
        fingerprint=run.fingerprint,
        based_on=run.based_on,
    )


def texts(source: Source) -> dict[str, str]:
    """What is said of the run, by name under `data/`, with nothing taken out yet."""
    run = source.run
    files = {"run.json": source.text, "bundle.json": _json(info(source))}
    matrix = run.matrix.model_dump(mode="json")
    files["matrix.yaml"] = _yaml({**matrix, "again": run.matrix.again})  # a file's default is true
    files["box.yaml"] = _yaml(_box(run))
    files["box-facts.json"] = json.dumps(run.box_facts, indent=1, sort_keys=True) + "\n"
    files["weights.json"] = _json(weights(run.found))
    files |= _fetched(source.weights) | _environment(source)
    for name, served in run.served.items():
        files[f"units/{name}.service"] = served.unit
        if served.engine is not None:
            argv = list(served.engine.argv)
            files[f"units/{name}.arguments.json"] = json.dumps(argv, indent=1) + "\n"
    return files


def redactions_file(redactions: Sequence[Redaction]) -> str:
    return _json(redactions)


def weights(deployment: Deployment) -> tuple[WeightsFile, ...]:
    """Model and drafter by hash and origin: they are too large to carry."""
    model, drafter = deployment.model, deployment.decoding.drafter
    own = model.weights
    found = WeightsFile(
        role="model",
        name=model.name,
        source=own.source,
        sha256=own.sha256,
        size=own.size,
        licence=model.licence,
    )
    if not isinstance(drafter, Weights):
        return (found,)
    return found, WeightsFile(
        role="drafter",
        name=drafter.source,
        source=drafter.source,
        sha256=drafter.sha256,
        size=drafter.size,
        licence=None,
    )


def _environment(source: Source) -> dict[str, str]:
    files = {}
    if (seen := source.environment) is not None:
        files["environment.json"] = _json(seen)
        files["environment/requirements.txt"] = packages.freeze(seen)
        files["environment/pylock.toml"] = packages.lock(seen)
        files["environment/sbom.cdx.json"] = packages.sbom(seen, info(source))
    if source.manifest is not None:
        files["environment/patches.json"] = _json(source.manifest.patches)
    return files


def _fetched(parts: Sequence[WeightsPart]) -> dict[str, str]:
    """Lists that a bag with the weights would have, as BagIt has them; this one is whole without.

    Where they named the bag's own files, every tool would rightly call it incomplete.
    """
    at = {f"data/weights/{part.role}/{part.path}": part for part in parts}
    lines = [f"{part.url} {part.size} {path}\n" for path, part in sorted(at.items()) if part.url]
    known = [f"{part.sha256}  {path}\n" for path, part in sorted(at.items()) if part.sha256]
    files = {"weights/fetch.txt": "".join(lines), "weights/manifest-sha256.txt": "".join(known)}
    return {name: text for name, text in files.items() if text}


def readme(told: BundleInfo, claims: Sequence[Claim], redactions: Sequence[Redaction]) -> str:
    """What is claimed, how to check it, how to repeat it."""
    taken = sum(redaction.count for redaction in redactions)
    lines = [
        f"# {told.name}",
        "",
        f"Matrix `{told.matrix}` on box `{told.box}`, last cell measured {told.created}, "
        f"ddops {told.ddops_version}, commit {told.commit or 'of the release'}.",
        "",
        "## Claims",
        "",
        *[f"- {claim.text}{_cited(claim)}" for claim in claims],
        "",
        "`data/report/report.html` shows them with their plots; every number leads to its record.",
        "",
        "## Check",
        "",
        f"`ddops bundle verify {told.name}` hashes every file and derives every number again "
        "from the requests in `data/records/`; `ddops claims data/claims.yaml` weighs every ratio.",
        "",
        "## Repeat",
        "",
        f"    {REPLAY}",
        "",
        "in this folder, on the box BOX of your inventories: it says first what differs there. "
        "By hand, on this machine:",
        "",
        f"    {BY_HAND}",
        "",
        "Weights are fetched by the hashes in `data/weights.json`; `data/weights/` lists their "
        "files. Speeds depend on the box: compare `data/box-facts.json` first.",
        "",
        f"Taken out before packing: {taken} private strings, listed in `data/redactions.json`.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def bag_info(told: BundleInfo) -> dict[str, str]:
    """The date is the run's, so that the same run gives the same bag."""
    return {
        "Bag-Software-Agent": f"ddops {told.ddops_version}",
        "Bagging-Date": told.created[:10],
        "External-Identifier": told.name,
    }


def _cited(claim: Claim) -> str:
    return f" ({', '.join(claim.records)})" if claim.records else ""


def _box(run: Run) -> dict[str, Any]:
    """An inventory that serves what was served; replays run on the machine they are typed on."""
    return {
        "about": f"replay of {run.matrix.name} as measured on {run.box}",
        "deployment": run.found.model_dump(mode="json", exclude_none=True),
    }


def _json(value: Word | Sequence[Word]) -> str:
    if isinstance(value, Word):
        return json.dumps(value.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"
    dumped = [word.model_dump(mode="json") for word in value]
    return json.dumps(dumped, indent=1, sort_keys=True) + "\n"


def _yaml(value: dict[str, Any]) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
