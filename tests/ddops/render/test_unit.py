"""Units and engine arguments as text: complete, quoted, and accepted by systemd itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from ddops.engines.base import Paths
from ddops.engines.ddtree import DDTREE
from ddops.errors import SpecError
from ddops.host.keeper import Orders
from ddops.render.template import fill, quoted
from ddops.render.unit import argv_of, render_env, render_unit
from ddops.spec.deployment import Deployment
from ddops.spec.load import load_box
from ddops.spec.unit import Unit

UNIT = Unit(
    description="a model on ddtree (local)",
    argv=(
        sys.executable,
        "-m",
        "ddtree",
        "serve",
        "--model",
        "/w/a model 100%.gguf",
        "--port",
        "1",
    ),
    workdir="/tmp",
    user="root",
    env={"XDG_CACHE_HOME": "/var/cache/x y"},
    env_file="/tmp/env",
    notifies=True,
    final_exit_codes=(2, 3, 4, 5),
    ready_timeout_s=300.0,
)


def wish(**changes: Any) -> Deployment:
    return load_box("local").deployment.model_copy(update=changes)


def flags(deployment: Deployment) -> list[str]:
    found = DDTREE.arguments(deployment, Paths(model="/w/m.gguf", drafter=None))
    return list(DDTREE.argv("python", found))


def test_the_default_box_becomes_this_command_line() -> None:
    assert " ".join(flags(wish())) == (
        "python -m ddtree serve --model /w/m.gguf --served-model-name SmolLM2-135M-Instruct"
        " --mode ddtree --budget 16 --drafter bundled --dtype auto --device auto"
        " --context-length 2048 --max-running-requests 8"
        " --host 127.0.0.1 --port 8421"
    )


def test_an_autoregressive_deployment_has_neither_budget_nor_drafter() -> None:
    deployment = wish()
    decoding = deployment.decoding.model_copy(update={"mode": "ar"})
    line = " ".join(flags(wish(decoding=decoding)))
    assert "--mode ar" in line
    assert "--budget" not in line
    assert "--drafter" not in line


def test_every_limit_that_is_set_reaches_the_engine() -> None:
    limits = wish().limits.model_copy(update={"kv_tokens": 4096})
    line = " ".join(flags(wish(limits=limits, threads=2)))
    assert "--kv-tokens 4096" in line
    assert "--threads 2" in line


def test_a_drafter_from_the_prompt_is_named() -> None:
    decoding = wish().decoding.model_copy(update={"drafter": "prompt-lookup"})
    assert "--drafter prompt-lookup" in " ".join(flags(wish(decoding=decoding)))


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("plain-word", "plain-word"),
        ("a b", '"a b"'),
        ("100%", "100%%"),
        ("$HOME", "$$HOME"),
        ('say "x"', '"say \\"x\\""'),
        ("", '""'),
    ],
)
def test_words_of_a_unit_reach_the_program_as_they_are(word: str, text: str) -> None:
    assert quoted(word) == text


@pytest.mark.parametrize("kind", ["systemd", "background"])
def test_the_words_are_read_back_from_the_unit_as_they_went_in(kind: Any) -> None:
    argv = (*UNIT.argv, "a b", "100%", "$HOME", 'say "x"', "", "it's", "a\\b")
    assert argv_of(render_unit(UNIT.model_copy(update={"argv": argv}), kind), kind) == argv
    assert argv_of("[Service]\nExecStart='", kind) == ()


def test_a_system_unit_is_hardened_and_gives_up_where_a_restart_is_vain() -> None:
    lines = render_unit(UNIT, "systemd").splitlines()
    for line in (
        "Type=notify",
        "User=root",
        "Restart=on-failure",
        "RestartPreventExitStatus=2 3 4 5",
        "StartLimitBurst=5",
        "TimeoutStartSec=330",
        "EnvironmentFile=/tmp/env",
        'Environment="XDG_CACHE_HOME=/var/cache/x y"',
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "LimitMEMLOCK=infinity",
        "WantedBy=multi-user.target",
    ):
        assert line in lines
    for hides_the_gpus in ("PrivateDevices", "ProtectClock", "DeviceAllow"):
        assert not [line for line in lines if line.startswith(hides_the_gpus)]


def test_what_lies_in_tmp_is_not_hidden_from_the_service() -> None:
    assert "PrivateTmp" not in render_unit(UNIT, "systemd")
    update = {"workdir": "/var/lib/d", "env_file": "/var/lib/d/env", "argv": ("/usr/bin/true",)}
    elsewhere = UNIT.model_copy(update=update)
    assert "PrivateTmp=yes" in render_unit(elsewhere, "systemd").splitlines()


def test_a_user_unit_has_no_user_and_another_target() -> None:
    text = render_unit(UNIT, "systemd-user")
    assert "User=" not in text
    assert "WantedBy=default.target" in text


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
@pytest.mark.parametrize("kind", ["systemd", "systemd-user"])
def test_systemd_itself_finds_nothing_to_say(kind: Any, tmp_path: Path) -> None:
    file = tmp_path / "ddops-local.service"
    file.write_text(render_unit(UNIT, kind), "utf-8")
    said = subprocess.run(
        ["systemd-analyze", "verify", *(["--user"] if kind == "systemd-user" else []), str(file)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert (said.returncode, said.stderr) == (0, "")


def test_the_keepers_unit_is_exactly_what_the_keeper_reads() -> None:
    orders = Orders(**json.loads(render_unit(UNIT, "background")))
    assert tuple(orders.argv) == UNIT.argv
    assert orders.final_exit_codes == [2, 3, 4, 5]


def test_a_variable_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        fill("systemd/engine.service.j2", user_manager=False)


def test_a_key_is_written_for_the_supervisor() -> None:
    assert 'DDTREE_API_KEY="k3y"' in render_env("DDTREE_API_KEY", "k3y")
    assert "DDTREE_API_KEY" not in render_env("DDTREE_API_KEY", None)


@pytest.mark.parametrize("key", ["two\nlines", 'a"b', "a b", "$x", "a\\b", "\u00e4"])
def test_a_key_that_could_break_out_of_its_line_is_refused(key: str) -> None:
    with pytest.raises(SpecError, match="the API key"):
        render_env("DDTREE_API_KEY", key)
