"""The packages of the engine's Python: name, version, origin, the hash of what was installed."""

from __future__ import annotations

from ddops.spec.command import Run
from ddops.spec.packages import Environment

_PROBE = """
import hashlib, json, platform, re
from importlib.metadata import distributions

def wheel(package, name, version):
    lines = (package.read_text("WHEEL") or "").splitlines()
    tags = [line.split(":", 1)[1].strip().split("-") for line in lines if line.startswith("Tag:")]
    build = [line.split(":", 1)[1].strip() for line in lines if line.startswith("Build:")]
    if not tags or any(len(tag) != 3 for tag in tags):
        return None
    columns = [".".join(dict.fromkeys(column)) for column in zip(*tags)]
    return "-".join([name.replace("-", "_"), version, *build, *columns]) + ".whl"

def origin(package):
    said = json.loads(package.read_text("direct_url.json") or "null")
    if said is None:
        return None
    if "vcs_info" in said:
        info = said["vcs_info"]
        kind = {"kind": "vcs", "vcs": info.get("vcs"), "commit": info.get("commit_id")}
        return {**kind, "url": said["url"]}
    if "dir_info" in said:
        return {"kind": "directory", "url": None}
    info = said.get("archive_info", {})
    digest = info.get("hashes", {}).get("sha256")
    if digest is None and info.get("hash", "").startswith("sha256="):
        digest = info["hash"].partition("=")[2]
    url = None if said["url"].startswith("file:") else said["url"]
    return {"kind": "archive", "url": url, "sha256": digest}

found = {}
for package in distributions():
    about = package.metadata  # read from its file each time
    name = re.sub(r"[-_.]+", "-", about["Name"] or "").lower()
    version = about["Version"]
    record = package.read_text("RECORD")
    digest = hashlib.sha256(record.encode()).hexdigest() if record else None
    found.setdefault(name, {
        "name": name, "version": version, "record_sha256": digest,
        "wheel": wheel(package, name, version), "origin": origin(package),
    })
print(json.dumps({
    "python": f"{platform.python_implementation()} {platform.python_version()}",
    "platform": platform.platform(),
    "packages": [found[name] for name in sorted(found) if name],
}))
"""


def command(interpreter: str) -> Run:
    return Run(argv=(interpreter, "-c", _PROBE), why="list the packages of the engine's Python")


def parse(text: str) -> Environment:
    return Environment.model_validate_json(text)
