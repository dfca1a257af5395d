"""The command line: flags from the configuration, quick to answer, right exit codes."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest

from ddtree import __version__
from ddtree.cli import HELP, main
from ddtree.config import EngineConfig
from tests.checkout import ROOT


def ddtree(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ddtree", *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT / "runtime")},
    )


def test_help_is_quick_and_lists_the_commands() -> None:
    # CPU seconds: a busy machine must not fail this.
    before = os.times()
    said = ddtree("--help")
    after = os.times()
    assert said.returncode == 0
    assert "serve" in said.stdout and "generate" in said.stdout
    spent = after.children_user + after.children_system
    assert spent - before.children_user - before.children_system < 0.3


def test_nothing_heavy_is_imported_before_a_command_needs_it() -> None:
    code = "import ddtree.cli, sys; print({'torch', 'starlette', 'pydantic'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "set()\n"


def test_the_version_is_said() -> None:
    assert ddtree("--version").stdout == f"ddtree {__version__}\n"


@pytest.mark.parametrize("command", ["serve", "generate"])
def test_every_field_of_the_configuration_is_a_flag(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = capsys.readouterr().out
    for field in fields(EngineConfig):
        assert re.search(rf"--{field.name.replace('_', '-')}\b", said), field.name
    assert set(HELP) == {field.name for field in fields(EngineConfig)}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "required: COMMAND"),
        (["serve"], "--model"),
        (["serve", "--model", "m", "--mode", "fast"], "--mode"),
        (["serve", "--model", "m", "--budget", "many"], "--budget"),
        (["serve", "--model", "m", "--budget", "0"], "budget 0 is outside 1..256"),
        (["serve", "--model", "m", "--mode", "ddtree"], "needs a drafter"),
        (["serve", "--model", "m", "--port", "70000"], "--port"),
        (["serve", "--model", "m", "--drain-timeout", "-1"], "--drain-timeout"),
        (["serve", "--model", "m", "--page-size", "0"], "page_size must be positive"),
        (["generate", "--model", "m"], "PROMPT"),
    ],
)
def test_bad_arguments_exit_2_and_say_which(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_a_port_in_use_exits_5_before_the_model_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        started = time.monotonic()
        said = ddtree("serve", "--model", str(tmp_path / "none"), "--port", str(port))
        assert time.monotonic() - started < 30
    assert said.returncode == 5
    assert f"port {port} on 127.0.0.1 is in use" in said.stderr
    assert "hint:" in said.stderr


def test_an_address_of_another_machine_exits_2(tmp_path: Path) -> None:
    said = ddtree("serve", "--model", str(tmp_path / "none"), "--host", "192.0.2.1")
    assert said.returncode == 2
    assert "192.0.2.1" in said.stderr


@pytest.mark.parametrize("command", ["serve", "generate"])
def test_a_model_that_is_not_there_exits_3(command: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "model.gguf")
    last = ["--port", "0"] if command == "serve" else ["hi"]
    said = ddtree(command, "--model", missing, *last)
    assert said.returncode == 3, said.stderr
    assert missing in said.stderr
    assert "hint" in said.stderr
