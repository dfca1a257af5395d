"""How long a signed address lasts, and who gets the token."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from math import inf

import pytest

from ddops.host import hub


def amazon(age_s: float, lasts_s: int) -> str:
    signed = datetime.now(UTC) - timedelta(seconds=age_s)
    return f"https://x.example/f?X-Amz-Date={signed:%Y%m%dT%H%M%SZ}&X-Amz-Expires={lasts_s}"


def test_the_end_of_an_address_is_read_from_it_with_a_margin() -> None:
    cloud = f"https://x.example/f?Expires={time.time() + 3600:.0f}&Signature=s"
    assert hub.lasts(cloud) == pytest.approx(3600 - hub.MARGIN_S, abs=2)
    assert hub.lasts(amazon(600, 3600)) == pytest.approx(3000 - hub.MARGIN_S, abs=2)


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example/f",
        "https://x.example/f?Expires=soon",
        "https://x.example/f?X-Amz-Expires=60",
        "https://x.example/f?Expires=1",  # it will be refused, and that tells
    ],
)
def test_an_address_that_does_not_tell_is_used_until_it_is_refused(url: str) -> None:
    assert hub.lasts(url) == inf


def test_the_token_is_for_the_hub_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", " hf_s3cret\n")
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example/")
    assert hub.token_for("https://hub.example/org/m/resolve/main/f") == "hf_s3cret"
    assert hub.token_for("https://hub.example.evil/f") is None


def test_a_token_that_no_header_can_carry_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", 'a"\nheader = "x')
    assert hub.token() is None
