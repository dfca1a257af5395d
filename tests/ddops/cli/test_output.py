"""The one voice: data on stdout, everything else on stderr."""

from __future__ import annotations

import json

import pytest

from ddops.cli.output import Output, explain, table
from ddops.errors import SpecError, UsageError

Captured = pytest.CaptureFixture[str]


def test_a_result_is_data_or_words_never_both(capsys: Captured) -> None:
    Output(json=True).result({"a": 1}, "words")
    assert json.loads(capsys.readouterr().out) == {"a": 1}
    Output().result({"a": 1}, "words [not markup]")
    assert capsys.readouterr().out == "words [not markup]\n"


def test_words_go_to_stderr_as_loud_as_asked(capsys: Captured) -> None:
    for quiet, verbose, expected in (
        (False, False, "said\nwarning: warned\n"),
        (True, False, "warning: warned\n"),
        (False, True, "said\nmore\nwarning: warned\n"),
    ):
        out = Output(quiet=quiet, verbose=verbose)
        out.say("said")
        out.detail("more")
        out.warn("warned")
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", expected)


def test_a_step_is_one_line_where_there_is_no_terminal(capsys: Captured) -> None:
    with Output().step("fetch x", of="bytes") as progress:
        progress(1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("  fetch x (0.")


def test_a_failed_step_is_not_told_as_done(capsys: Captured) -> None:
    with pytest.raises(UsageError), Output().step("fetch x"):
        raise UsageError("no")
    assert capsys.readouterr().err == ""


def test_nobody_is_asked_where_nobody_can_answer() -> None:
    assert Output().confirm("go?", yes=True)
    with pytest.raises(UsageError) as caught:
        Output().confirm("go?", yes=False)
    assert "`--yes`" in str(caught.value.hint)


def test_an_error_has_its_parts_in_order() -> None:
    error = SpecError("x.yaml:1:2: wrong", detail="more\n", hint="`ddops plan`")
    assert explain(error) == "error: x.yaml:1:2: wrong\nmore\n\nhint: `ddops plan`"
    assert explain(SpecError("wrong")) == "error: wrong"


def test_tables_have_no_colour_where_there_is_no_terminal(capsys: Captured) -> None:
    Output().result([], table(("name", "n"), [("a", "1")], right=("n",)))
    assert capsys.readouterr().out.split() == ["name", "n", "a", "1"]
