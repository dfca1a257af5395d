"""The frame of the command line: help, errors as words, exit codes, Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from ddops.cli import app
from ddops.errors import DdopsError
from tests.ddops.machine import Machine

ORDER = ["inspect", "check", "plan", "deploy", "status", "logs", "stop", "restart"]


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ddops", *arguments],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def paths(group: TyperGroup, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        found.append((*above, name))
        if isinstance(command, TyperGroup):
            found += paths(command, (*above, name))
    return found


def root() -> TyperGroup:
    command = typer.main.get_command(app.app)
    assert isinstance(command, TyperGroup)
    return command


def test_help_is_quick() -> None:
    """0.3 s on an idle machine: the best of several, and processor time rather than the clock's."""
    took = []
    for _ in range(5):
        before = os.times()
        assert run("--help").returncode == 0
        after = os.times()
        took.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    assert min(took) < 0.3


def test_help_loads_nothing_heavy() -> None:
    heavy = "pydantic httpx rich jinja2 yaml psutil stamina huggingface_hub matplotlib torch"
    script = (
        "import sys; from ddops.cli import app; app.main(['--help']);"
        f"sys.exit(' '.join(m for m in '{heavy}'.split() if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""


def test_verbs_are_listed_in_the_order_of_work() -> None:
    listed = [path[0] for path in paths(root()) if path[0] in ORDER]
    assert listed == ORDER


@pytest.mark.parametrize("path", paths(root()), ids=" ".join)
def test_every_verb_explains_itself_with_an_example(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"ddops {' '.join(path)}" in shown.split("Example:")[-1] or "COMMAND" in shown


def test_an_error_is_told_with_its_place_and_the_next_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert app.main(["plan", "locl"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: there is no box `locl`\nknown boxes: ")
    assert said.err.endswith("\n\nhint: did you mean `local`?\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nothing"], "error: no such command `nothing`"),
        (["plan", "--nothing"], "error: no such option: --nothing"),
        (["logs", "-n", "x"], "error: invalid value for `--lines`"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(text)
    assert "--help`" in said


def test_every_layer_has_an_exit_code_of_its_own() -> None:
    codes = {kind.exit_code for kind in DdopsError.__subclasses__()}
    assert codes == set(range(2, 2 + len(codes)))


def test_a_bug_is_one_line_and_the_traceback_is_for_those_who_ask(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import ddops.spec.load as load\n"
        "def broken(name): raise KeyError('a bug')\n"
        "load.load_box = broken\n",
        "utf-8",
    )
    plain = run("plan", PYTHONPATH=str(tmp_path))
    assert plain.returncode == 1
    assert plain.stderr.splitlines()[0] == "error: ddops itself failed: KeyError: 'a bug'"
    assert "DDOPS_DEBUG=1" in plain.stderr
    assert "Traceback" not in plain.stderr
    asked = run("plan", PYTHONPATH=str(tmp_path), DDOPS_DEBUG="1")
    assert "Traceback" in asked.stderr


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ddops.flows.site.load_box", interrupt)
    assert app.main(["plan", "local"]) == 130
    assert "hint: to continue, `ddops plan local`" in capsys.readouterr().err


def test_the_version_needs_no_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("ddops ")


def test_a_reader_that_went_away_is_no_bug(machine: Machine) -> None:
    process = machine.process("inspect", "stand", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=30)
    assert "ddops itself failed" not in said
