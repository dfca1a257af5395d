"""The documents are tested: commands parse and are all described, files and links exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.checkout import ROOT, files, text

pytest.importorskip("ddops.cli.app", reason="the CLI is not there yet")

from ddops.cli.app import app

HISTORY = Path("docs/log.md")  # keeps the names of what is no longer there
CHECKOUT_PATH = re.compile(
    r"`((?:ddops|runtime|tests|docs|templates|inventories|repro|\.ci)/[\w./-]*\w/?)`"
)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")


def documents() -> list[Path]:
    roots = {"README.md", "docs", "runtime", "repro"}
    return [path for path in files(".md") if path.parts[0] in roots]


def command_lines() -> list[tuple[str, str]]:
    return [
        (f"{path}:{number}", line.strip().removeprefix("$ "))
        for path in documents()
        for number, line in enumerate(text(path).splitlines(), start=1)
        if line.strip().startswith("$ ddops")
    ]


def parse(command: Any, arguments: list[str], parent: Any = None) -> None:
    """Walk down to the verb and parse its options as a run would, without running it."""
    context = command.make_context(command.name, arguments, parent=parent)
    if not hasattr(command, "resolve_command"):
        return
    rest = [*context._protected_args, *context.args]
    if rest:
        _, verb, rest = command.resolve_command(context, rest)
        parse(verb, rest, context)


def verbs(command: Any, prefix: str) -> Iterator[str]:
    for name, verb in getattr(command, "commands", {}).items():
        if not verb.hidden:
            yield from verbs(verb, f"{prefix} {name}")
    if not hasattr(command, "commands"):
        yield prefix


ROOT_COMMAND = typer.main.get_command(app)


@pytest.mark.parametrize(("where", "line"), command_lines())
def test_a_documented_command_line_parses(where: str, line: str) -> None:
    words = shlex.split(line.split(" | ")[0].split(" > ")[0], comments=True)
    try:
        parse(ROOT_COMMAND, words[1:])
    except typer.Exit as told:  # `--help` and `--version` end here
        assert told.exit_code == 0, where


@pytest.mark.parametrize("line", ["ddops nonsense", "ddops --nonsense"])
def test_a_wrong_command_line_would_be_noticed(line: str) -> None:
    with pytest.raises(Exception, match="nonsense"):
        parse(ROOT_COMMAND, line.split()[1:])


@pytest.mark.parametrize("verb", sorted(verbs(ROOT_COMMAND, "ddops")))
def test_every_command_is_documented(verb: str) -> None:
    assert any(re.search(rf"{verb}\b", text(path)) for path in documents())


def test_the_documents_name_only_files_that_exist() -> None:
    missing = [
        f"{path}: {name}"
        for path in documents()
        if path != HISTORY
        for name in CHECKOUT_PATH.findall(text(path))
        if not (ROOT / name).exists()
    ]
    assert missing == []


def headings(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", text(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere() -> None:
    dead = []
    for path in documents():
        for target, anchor in LINK.findall(text(path)):
            there = Path(target) if not target else path.parent / target
            page = path if not target else there
            if not (ROOT / page).exists() or (anchor and anchor not in headings(page)):
                dead.append(f"{path}: {target}#{anchor}")
    assert dead == []
