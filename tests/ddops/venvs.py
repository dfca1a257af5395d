"""A real small environment: pip, a compiled module, a console script, an editable project."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from ddops.engines.table import ENGINES
from ddops.facts.installed import record_hash
from tests.ddops.machine import STANDIN

GREET = "def main():\n    print('hello')\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"

BACKEND = '''\
"""The smallest build backend that pip can install in place."""
import pathlib, zipfile

WHEEL = {wheel!r}
HERE = pathlib.Path(__file__).parent

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "near-2.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as made:
        made.writestr("near.pth", str(HERE / "src"))
        made.writestr("near-2.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: near\\nVersion: 2.0\\n")
        made.writestr("near-2.0.dist-info/WHEEL", WHEEL)
        made.writestr("near-2.0.dist-info/RECORD", "")
    return name

def build_wheel(folder, config_settings=None, metadata_directory=None):
    raise NotImplementedError
'''  # noqa: E501


def distribution_python() -> str:
    """It does not travel, which makes a quick test; where there is none, the tests' own does."""
    found = Path(f"/usr/bin/python3.{sys.version_info.minor}")
    return str(found) if found.exists() else sys.executable


def make(folder: Path, interpreter: str) -> Path:
    """`folder/venv`: markupsafe compiled, `greet` with its script, `near` from `folder/near`."""
    venv = folder / "venv"
    subprocess.run([interpreter, "-m", "venv", "--without-pip", str(venv)], check=True)
    copy(venv, "pip")
    copy(venv, "markupsafe")
    pip(venv, str(wheel(folder)))
    pip(venv, "--no-build-isolation", "-e", str(project(folder)))
    return venv


def pip(venv: Path, *words: str) -> None:
    python = str(venv / "bin" / "python")
    line = (python, "-m", "pip", "--disable-pip-version-check", "install", "--no-index")
    done = subprocess.run([*line, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def site(venv: Path) -> Path:
    (found,) = venv.glob("lib/python3.*/site-packages")
    return found


def copy(venv: Path, name: str) -> None:
    """A package of the interpreter that runs the tests, with its papers."""
    for file in distribution(name).files or ():
        target = site(venv) / file
        if file.suffix != ".pyc" and ".." not in file.parts:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(file.locate()), target)


def wheel(folder: Path) -> Path:
    path = folder / "greet-1.0-py3-none-any.whl"
    metadata = "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\nRequires-Dist: markupsafe\n"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("greet/__init__.py", GREET)
        made.writestr("greet-1.0.dist-info/METADATA", metadata)
        made.writestr("greet-1.0.dist-info/WHEEL", WHEEL)
        scripts = "[console_scripts]\ngreet = greet:main\n"
        made.writestr("greet-1.0.dist-info/entry_points.txt", scripts)
        row = f"greet/__init__.py,sha256={record_hash(sha256(GREET))},{len(GREET)}\n"
        made.writestr("greet-1.0.dist-info/RECORD", row)
    return path


def project(folder: Path) -> Path:
    root = folder / "near"
    (root / "src" / "near").mkdir(parents=True)
    (root / "src" / "near" / "__init__.py").write_text("HERE = __file__\n", "utf-8")
    (root / ".cache").mkdir()
    (root / ".cache" / "big").write_bytes(b"what nobody imports")
    (root / "backend.py").write_text(BACKEND.format(wheel=WHEEL), "utf-8")
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (root / "pyproject.toml").write_text(system, "utf-8")
    return root


def engine(venv: Path) -> None:
    """The stand-in engine, in a folder that a line of a .pth file leads to."""
    home = venv.parent / "engine"
    shutil.copytree(STANDIN / "ddtree", home / "ddtree")
    for name in ENGINES["ddtree"].needed:
        (home / name).mkdir(exist_ok=True)  # the stand-in needs none of them
        (home / name / "__init__.py").touch()
    (home / "torch" / "version.py").write_text("cuda = None\n", "utf-8")
    (site(venv) / "engine.pth").write_text(f"{home}\n", "utf-8")
    copy(venv, "psutil")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def patch(venv: Path) -> str:
    """Change an installed file by hand; the path below the environment."""
    path = site(venv) / "greet" / "__init__.py"
    path.write_text("def main():\n    print('hello, patched')\n", "utf-8")
    return str(path.relative_to(venv))
