"""The engine's environment in the words of others: freeze, PEP 751 lock, CycloneDX. Pure."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Any, Final

import tomli_w

from ddops.spec.bundle import BundleInfo
from ddops.spec.packages import Environment, Package

_SERIAL: Final = uuid.UUID("5d3f5d3e-4c5c-5f0e-9d57-0d6b1a3c9e21")
"""Of what serial numbers are made from: any fixed one will do."""


def freeze(environment: Environment) -> str:
    """As `pip freeze` has it; where a package came from elsewhere than an index, that."""
    return "".join(f"{_requirement(package)}\n" for package in environment.packages)


def lock(environment: Environment) -> str:
    """PEP 751. What pip installed from an index leaves no hash of the file it came in.

    Such packages cannot stand in a lock: they are in `tool.ddops.unpinned`, each with the name
    its wheel has and the hash of the list of its installed files, by which it can be checked.
    """
    pinned = [package for package in environment.packages if _artefact(package)]
    loose = [package for package in environment.packages if not _artefact(package)]
    version = environment.python.rsplit(" ", 1)[-1]
    said: dict[str, Any] = {
        "lock-version": "1.0",
        "requires-python": f"=={version}",
        "created-by": "ddops",
        "packages": [
            {"name": each.name, "version": each.version, **_artefact(each)} for each in pinned
        ],
        "tool": {"ddops": {"unpinned": [_loose(package) for package in loose]}},
    }
    return tomli_w.dumps(said)


def sbom(environment: Environment, told: BundleInfo) -> str:
    """CycloneDX 1.6; its serial number is of the bundle's name and the packages."""
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion
    from packageurl import PackageURL

    content = f"{told.name}\n{environment.model_dump_json()}"
    itself = Component(
        name=told.name,
        version=told.fingerprint[:8],
        type=ComponentType.DATA,
        bom_ref=told.name,
        description=f"{environment.python} on {environment.platform}",
    )
    bom = Bom(
        serial_number=uuid.uuid5(_SERIAL, content),
        metadata=BomMetaData(component=itself, timestamp=datetime.fromisoformat(told.created)),
        components=[
            Component(
                name=package.name,
                version=package.version,
                type=ComponentType.LIBRARY,
                purl=(purl := PackageURL("pypi", name=package.name, version=package.version)),
                bom_ref=str(purl),
            )
            for package in environment.packages
        ],
    )
    bom.register_dependency(itself, bom.components)
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string()
    return json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"


def _requirement(package: Package) -> str:
    origin = package.origin
    if origin is None or origin.url is None:
        return f"{package.name}=={package.version}"
    if origin.kind == "vcs":
        return f"{package.name} @ {origin.vcs}+{origin.url}@{origin.commit}"
    return f"{package.name} @ {origin.url}"


def _artefact(package: Package) -> dict[str, Any]:
    """How a lock names the one thing it came from; empty where that is not known."""
    origin = package.origin
    if origin is None:
        return {}
    if origin.kind == "vcs" and origin.commit and origin.vcs:
        return {"vcs": {"type": origin.vcs, "url": origin.url, "commit-id": origin.commit}}
    if origin.kind == "archive" and origin.sha256 and (origin.url or package.wheel):
        where = {"url": origin.url} if origin.url else {"path": package.wheel}
        return {"archive": {**where, "hashes": {"sha256": origin.sha256}}}
    return {}


def _loose(package: Package) -> dict[str, str]:
    said = {
        "name": package.name,
        "version": package.version,
        "wheel": package.wheel,
        "record-sha256": package.record_sha256,
    }
    return {key: value for key, value in said.items() if value is not None}
