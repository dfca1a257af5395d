"""Packages and patches, told from the RECORD that every wheel leaves."""

from __future__ import annotations

from ddops.facts.installed import Installed, read, record_hash
from ddops.spec.environment import File
from tests.ddops.environments import SITE, file

GOOD, OTHER = "a" * 64, "b" * 64


def found(record: str, *files: dict[str, object], wheel: str = "Tag: py3-none-any\n") -> Installed:
    info = f"{SITE}/greet_it-1.0.dist-info"
    texts = {f"{info}/RECORD": record, f"{info}/WHEEL": wheel}
    papers = (file(f"{info}/RECORD"), file(f"{info}/WHEEL"))
    there = tuple(File.model_validate(one) for one in (*papers, *files))
    rows = f"greet_it-1.0.dist-info/RECORD,,\ngreet_it-1.0.dist-info/WHEEL,,\n{record}"
    return read(there, {**texts, f"{info}/RECORD": rows}, SITE)


def row(path: str, sha256: str = GOOD) -> str:
    return f"{path},sha256={record_hash(sha256)},1\n"


def test_a_package_has_its_name_version_and_what_it_is_imported_as() -> None:
    record = row("greet/__init__.py") + row("single.py") + row("fast.cpython-311.so")
    (package,) = found(record).packages
    assert (package.name, package.version) == ("greet-it", "1.0")
    assert package.modules == ("fast", "greet", "single")


def test_a_file_that_is_as_installed_is_no_patch() -> None:
    assert found(row("greet/a.py"), file(f"{SITE}/greet/a.py")).patches == ()


def test_changed_removed_and_added_files_are_patches() -> None:
    record = row("greet/a.py") + row("greet/b.py") + row("../../../bin/greet")
    files = (file(f"{SITE}/greet/a.py", OTHER), file("bin/greet"), file(f"{SITE}/stray.pth"))
    told = [(one.package, one.change, one.path, one.found) for one in found(record, *files).patches]
    assert told == [
        ("greet-it", "changed", f"{SITE}/greet/a.py", OTHER),
        ("greet-it", "removed", f"{SITE}/greet/b.py", None),
        ("stray.pth", "added", f"{SITE}/stray.pth", GOOD),
    ]


def test_bytecode_and_files_of_elsewhere_do_not_travel_and_are_no_patches() -> None:
    record = row("greet/__pycache__/a.cpython-311.pyc") + row("/etc/greet.conf")
    assert found(record).patches == ()


def test_compiled_code_without_a_portable_tag_was_built_here() -> None:
    record = row("greet/fast.cpython-311-x86_64-linux-gnu.so")
    assert found(record, wheel="Tag: cp311-cp311-linux_x86_64\n").packages[0].built_here
    portable = "Tag: cp311-cp311-manylinux_2_28_x86_64\n"
    assert not found(record, wheel=portable).packages[0].built_here
    assert not found(row("greet/a.py")).packages[0].built_here
