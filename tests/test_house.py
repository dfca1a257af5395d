"""The house gates that no linter has: sizes, names, the verbs' correspondence, foreign paths."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import ROOT, files, text

FILE_LINES = 300
FUNCTION_LINES = 50
KERNEL_LINES = 150
NAMELESS = {"utils", "util", "common", "helpers", "helper", "misc"}
# All else in cli/ is a verb.
CLI_FRAME = {"__init__", "app", "ensemble", "options", "output", "several"}

EXAMPLES = r"(?!(?:alice|USER|somebody|Bob)\b)"  # people of the tests and of redacted texts
MACHINE_PATH = re.compile(rf"(?<![\w.~$}}-])/(?:home|Users|work)/{EXAMPLES}\w+")
INDEX_HOST = re.compile(
    r"\b(?:pypi|pythonhosted|download\.pytorch|deb\.debian|archive\.ubuntu)\.\w+"
)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Every function of a file with its length in lines."""
    for node in ast.walk(ast.parse(text(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_no_file_is_longer_than_a_sitting() -> None:
    lengths = {path: text(path).count("\n") for path in files(".py")}
    assert {p: n for p, n in lengths.items() if n > FILE_LINES} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        where: lines
        for path in files(".py")
        for where, lines in functions(path)
        if lines > (KERNEL_LINES if path.name == "kernel.py" else FUNCTION_LINES)
    }
    assert long == {}


def test_no_module_is_a_drawer_for_everything() -> None:
    assert [p for p in files(".py") if NAMELESS & {p.stem, *p.parts[:-1]}] == []


def test_every_module_says_what_it_is() -> None:
    packages = ("ddops", "runtime")
    modules = [p for p in files(".py") if p.parts[0] in packages and text(p).strip()]
    assert [p for p in modules if ast.get_docstring(ast.parse(text(p))) is None] == []


def test_two_tests_may_have_the_same_name_in_different_folders() -> None:
    tests = [p for p in files(".py") if p.parts[0] == "tests"]
    assert {p.parent / "__init__.py" for p in tests} - {*tests} == set()


def verbs() -> list[str]:
    return sorted({p.stem for p in files(".py") if p.parts[:-1] == ("ddops", "cli")} - CLI_FRAME)


@pytest.mark.parametrize("verb", verbs())
def test_a_verb_has_its_flow_and_its_test(verb: str) -> None:
    wanted = [Path(f"ddops/flows/{verb}.py"), Path(f"tests/ddops/flows/test_{verb}.py")]
    assert [p for p in wanted if p not in files(".py")] == []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    found = [f"{p}: {m.group()}" for p in files() for m in MACHINE_PATH.finditer(text(p))]
    if len(ROOT.parts) > 2:  # `/app/` would be found in innocent text
        found += [f"{p}: the checkout's own path" for p in files() if f"{ROOT}/" in text(p)]
    assert found == []


def test_no_file_names_a_package_index() -> None:
    assert [f"{p}: {m.group()}" for p in files() for m in INDEX_HOST.finditer(text(p))] == []


def test_the_rooms_import_downwards() -> None:
    lint = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert lint.returncode == 0, lint.stdout + lint.stderr
