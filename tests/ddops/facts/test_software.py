"""The engine's Python, asked for what rules lean on. The probe runs for real."""

from __future__ import annotations

import sys
from pathlib import Path

from ddops import __version__
from ddops.engines.options import parse as parse_options
from ddops.engines.table import ENGINES
from ddops.facts import software
from ddops.host.local import Local
from ddops.spec.software import Software


def seen(python: str, engine: str) -> Software:
    found = next(one for name, one in ENGINES.items() if name == engine)
    result = Local().run(software.command(python, found))
    assert result.ok, result.stderr
    return software.parse(result.stdout)


def test_the_bundled_engine_is_there_with_its_version() -> None:
    found = seen(sys.executable, "ddtree")
    assert found.version == __version__
    assert found.installed


def test_an_engine_that_is_not_installed_has_neither() -> None:
    found = seen(sys.executable, "sglang")
    assert (found.version, found.installed) == (None, False)


def test_what_a_box_brings_is_found_where_packages_put_it(tmp_path: Path) -> None:
    bin_ = tmp_path / "triton" / "backends" / "nvidia" / "bin"
    bin_.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").touch()
    assembler = bin_ / "ptxas"
    assembler.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    assembler.chmod(0o755)
    (tmp_path / "flash_attn" / "cute").mkdir(parents=True)
    (tmp_path / "flash_attn" / "__init__.py").touch()
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").touch()
    for name, version in (("sglang", "0.5.13"), ("triton", "3.6.0")):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (info / "METADATA").write_text(head)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)

    found = seen(str(python), "sglang")
    assert (found.version, found.flash_attn_cute) == ("0.5.13", True)
    assert (found.triton, found.triton_ptxas) == ("3.6.0", "12.8")


def test_the_help_of_the_bundled_engine_lists_its_options() -> None:
    said = Local().run(software.help_of(sys.executable, ENGINES["ddtree"]))
    options = parse_options(said.stdout, "ddtree")
    assert options
    assert "--budget" in options.flags
