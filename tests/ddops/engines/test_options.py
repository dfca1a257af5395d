"""What options an engine has, by its own help or as recorded, and what is asked of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ddops.engines.options import Options, parse, recorded
from ddops.errors import CheckError
from ddops.spec.argument import Argument

HELP = """\
usage: python -m engine serve [-h] --model-path PATH

options:
  -h, --help            show this help message and exit
  --tp-size TP_SIZE, --tensor-parallel-size TP_SIZE
                        how many GPUs; see --not-an-option for more
  --attention-backend {triton,fa3,auto-round}
                        kernels
  --skip-server-warmup  no warm-up
"""


def argument(flag: str, value: str = "", rule: str | None = None) -> Argument:
    return Argument(flag=flag, value=value, why="w", rule=rule)


def options() -> Options:
    found = parse(HELP, "engine 1.0")
    assert found is not None
    return found


def test_every_spelling_and_the_values_it_takes_are_read() -> None:
    assert options().flags == {
        "-h": None,
        "--help": None,
        "--tp-size": None,
        "--tensor-parallel-size": None,
        "--attention-backend": ("triton", "fa3", "auto-round"),
        "--skip-server-warmup": None,
    }


def test_a_text_without_options_says_nothing_about_the_engine() -> None:
    assert parse("Traceback (most recent call last):\nImportError: libcuda.so.1\n", "x") is None


def test_an_option_that_is_gone_is_named_with_the_nearest_and_who_asked() -> None:
    gone = argument("--cuda-graph-max-bs", "8", rule="sglang-graph-batch-old")
    release = recorded("sglang", "0.5.23")
    assert release is not None
    with pytest.raises(CheckError, match="no option --cuda-graph-max-bs") as e:
        release.check([gone])
    assert "(rule `sglang-graph-batch-old`)" in e.value.subject
    assert "--cuda-graph-max-bs-decode" in str(e.value.hint)


def test_a_value_that_is_not_taken_is_named_with_those_that_are() -> None:
    with pytest.raises(CheckError, match="takes no flash for --attention-backend") as caught:
        options().check([argument("--attention-backend", "flash")])
    assert caught.value.hint == "one of triton, fa3, auto-round"


def test_words_without_a_flag_are_no_options() -> None:
    options().check([argument("", "/w/model"), argument("--skip-server-warmup")])


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.5.13", "0.5.13"),
        ("0.5.16", "0.5.13"),
        ("0.5.20", "0.5.19"),
        ("0.5.19.post1", "0.5.19"),
        ("0.6.0", "0.5.23"),
    ],
)
def test_the_newest_recorded_release_that_is_not_newer_stands_in(
    version: str, release: str
) -> None:
    found = recorded("sglang", version)
    assert found is not None
    assert found.origin == f"sglang {release} (recorded)"


@pytest.mark.parametrize("version", [None, "nightly", "0.5.2"])
def test_an_unknown_version_is_not_taken_for_a_known_one(version: str | None) -> None:
    assert recorded("sglang", version) is None


def test_the_graph_options_were_renamed_as_the_rules_say() -> None:
    old, middle, new = (recorded("sglang", v) for v in ("0.5.13", "0.5.19", "0.5.23"))
    assert old
    assert middle
    assert new
    names = ("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode")
    assert [name in old.flags for name in names] == [True, False]
    assert [name in middle.flags for name in names] == [True, True]
    assert [name in new.flags for name in names] == [False, True]


def test_the_bundled_engine_is_read_by_its_real_help() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "ddtree", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = parse(said, "ddtree")
    assert found is not None
    assert found.flags["--mode"] == ("ar", "chain", "ddtree")
    assert {"--budget", "--adaptive", "--no-adaptive", "--kv-tokens"} <= set(found.flags)
