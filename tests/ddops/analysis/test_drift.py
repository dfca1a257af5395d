"""Drift: what is named is what differs, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.analysis import drift
from ddops.spec.deployment import Weights
from ddops.spec.drift import Drift
from ddops.spec.observed import Holding
from ddops.spec.packages import Environment

UNIT = """[Service]
Type=notify
ExecStart=/v/python -m ddtree serve --budget 16 --port 1
Restart=on-failure
"""
GOOD, BAD = "a" * 64, "b" * 64


def rows(found: list[Drift]) -> list[tuple[str, str, str]]:
    return [(one.what, one.wanted, one.there) for one in found]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (UNIT, []),
        (UNIT.replace("16", "8"), [("ExecStart", "--budget 16", "--budget 8")]),
        (UNIT.replace("Restart=on-failure\n", ""), [("Restart", "Restart=on-failure", "none")]),
        (f"{UNIT}# by hand\n", [("line", "none", "# by hand")]),
        (f"{UNIT}Nice=5\n", [("Nice", "none", "Nice=5")]),
    ],
)
def test_of_a_unit_only_the_words_that_differ_are_named(
    there: str, expected: list[tuple[str, str, str]]
) -> None:
    assert rows(drift.text(UNIT, there)) == expected


def test_a_process_that_was_started_otherwise_is_told_by_its_flags() -> None:
    wanted = ("-m", "ddtree", "serve", "--budget", "16", "--port", "1")
    running = ("-m", "ddtree", "serve", "--budget", "8", "--port", "1", "--extra")
    assert drift.arguments(wanted, wanted) == []
    assert rows(drift.arguments(wanted, running)) == [
        ("arguments", "--budget 16", "--budget 8"),
        ("arguments", "none", "--extra"),
    ]


def environment(python: str = "CPython 3.12", **packages: tuple[str, str]) -> Environment:
    found = [{"name": n, "version": v, "record_sha256": r} for n, (v, r) in packages.items()]
    return Environment.model_validate({"python": python, "platform": "", "packages": found})


def test_packages_that_came_went_or_changed_are_told_apart() -> None:
    proven = environment(torch=("2.11", "r1"), numpy=("2.0", "r2"), gone=("1", ""))
    there = environment(torch=("2.13", "r9"), numpy=("2.0", "other"), new=("1", ""))
    assert rows(drift.packages(proven, proven)) == []
    assert rows(drift.packages(proven, there)) == [
        ("gone", "1", "not installed"),
        ("new", "not installed", "1"),
        ("numpy", "2.0, as it was installed", "2.0, other files"),
        ("torch", "2.11", "2.13"),
    ]
    other = environment("CPython 3.13")
    assert rows(drift.packages(environment(), other)) == [
        ("version", "CPython 3.12", "CPython 3.13")
    ]


def holding(*artefacts: dict[str, Any]) -> Holding:
    base = {"path": "/w/f", "size": 3, "sha256": GOOD, "recorded": None, "mtime_ns": 0}
    found = [{**base, "part": False, **one} for one in artefacts]
    data = {"source": "file:/w/f", "root": "/w/f", "artefacts": found, "offer": None}
    return Holding.model_validate(data)


@pytest.mark.parametrize(
    ("pin", "seen", "expected"),
    [
        ({"sha256": GOOD}, holding({}), []),
        ({}, holding({}), []),
        ({"sha256": BAD}, holding({}), [("/w/f", f"sha256 {BAD}", f"sha256 {GOOD}")]),
        ({}, holding({"recorded": BAD}), [("/w/f", f"sha256 {BAD}", f"sha256 {GOOD}")]),
        ({"size": 9}, holding({}), [("/w/f", "9 bytes", "3 bytes")]),
        ({}, holding(), [("/w/f", "there", "not there")]),
    ],
)
def test_weights_are_held_against_their_pin_or_what_they_were(
    pin: dict[str, Any], seen: Holding, expected: list[tuple[str, str, str]]
) -> None:
    want = Weights.model_validate({"source": "file:/w/f", **pin})
    assert rows(drift.weights(want, seen)) == expected


def test_a_driver_is_named_only_when_it_changed() -> None:
    assert drift.drivers(["580.1"], ["580.1", "580.1"]) == []
    assert rows(drift.drivers(["580.1"], ["590.2"])) == [("version", "580.1", "590.2")]
    assert rows(drift.drivers(["580.1"], [])) == [("version", "580.1", "none")]
