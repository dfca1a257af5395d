"""What a preflight says about one subject of a box."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word

State = Literal["ok", "warn", "fail"]


class Verdict(Word):
    subject: str
    state: State  # fail: the deployment would not work; warn: it would work worse, or may not
    said: str
    fix: str | None = None  # the next thing to do; None when nothing is wrong


def ok(subject: str, said: str) -> Verdict:
    return Verdict(subject=subject, state="ok", said=said)


def warn(subject: str, said: str, fix: str | None) -> Verdict:
    return Verdict(subject=subject, state="warn", said=said, fix=fix)


def fail(subject: str, said: str, fix: str | None) -> Verdict:
    return Verdict(subject=subject, state="fail", said=said, fix=fix)
