"""The page says what the records say, needs nothing but itself, and looks right in a browser."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from PIL import Image

from ddops.flows.report import drawn, viewed
from ddops.report import plots
from ddops.report.page import Page
from ddops.spec.record import Failure
from tests.ddops import records
from tests.ddops.report.chromium import document, needs_chromium, screenshot

REMOTE = re.compile(r"""(?:src|href|url\()\s*=?\s*["']?(?:https?:)?//|@import|<link|<iframe|<img""")


def page_of(*, troubled: bool = True, repeats: int = 1) -> Page:
    of = records.matrix(repeats=repeats)
    made = records.records(of, troubled=troubled)
    return drawn(viewed(records.run(of), {f"../{r.cell.id}.json": r for r in made}))


@pytest.fixture(scope="module")
def page() -> Page:
    return page_of()


def test_a_page_needs_nothing_but_itself(page: Page) -> None:
    assert REMOTE.search(page.html) is None
    assert "http" not in re.sub(r"<pre>.*?</pre>", "", page.html, flags=re.DOTALL)


def test_every_number_of_the_table_leads_to_a_record(page: Page) -> None:
    table = page.html[page.html.index("<tbody>") : page.html.index("</tbody>")]
    shown = re.findall(r"<td[^>]*>(.*?)</td>", table)
    numbers = [text for text in shown if re.search(r"\d\.\d", text)]
    assert len(numbers) > 25
    assert [text for text in numbers if "<a href=" not in text] == []


def test_every_link_of_a_page_leads_somewhere(page: Page) -> None:
    ids = set(re.findall(r'id="([^"]+)"', page.html))
    assert {name for name in re.findall(r'href="#([^"]+)"', page.html) if name not in ids} == set()


def test_ids_are_unique(page: Page) -> None:
    ids = re.findall(r'\bid="([^"]+)"', page.html)
    assert len(ids) == len(set(ids))


def test_a_speed_up_is_that_of_the_two_records_it_names() -> None:
    of = records.matrix()
    speeds = {r.cell.id: r.metrics.output_tok_s for r in records.records(of) if r.metrics}
    page = page_of(troubled=False)
    found = re.findall(
        r"\[([\d.]+)x\]\(\.\./(\S+).json\) of \[ar\]\(\.\./(\S+).json\)", page.markdown
    )
    assert len(found) == 6
    for said, of_record, base in found:
        assert base.startswith("ar.")
        assert float(said) == pytest.approx(speeds[of_record] / speeds[base], abs=0.005)


def test_a_failed_cell_is_shown_with_its_symptom(page: Page) -> None:
    for text in (page.html, page.markdown):
        assert "failed: illegal-access" in text
        assert "an illegal memory access was encountered" in text


def test_no_speed_is_shown_beside_a_red_gate(page: Page) -> None:
    line = next(x for x in page.markdown.splitlines() if x.startswith("| ddtree-b8 | 4"))
    assert "invalid: garbage" in line
    assert not re.search(r"\d\.\d", line.replace("ddtree-b8.c4.r1", ""))


def test_a_cell_that_was_not_measured_is_told() -> None:
    of = records.matrix()
    made = records.records(of)[:-1]
    page = drawn(viewed(records.run(of), {r.cell.id: r for r in made}))
    assert "not measured" in page.html
    assert "1 cell not measured" in page.markdown


def test_a_later_attempt_replaces_an_earlier_one_and_keeps_it_in_sight() -> None:
    of = records.matrix()
    made = {r.cell.id: r for r in records.records(of)}
    tried = {"ar.c1.r1.failure": records.failed(made["ar.c1.r1"].cell, of)}
    seen = viewed(records.run(of), tried | made)
    assert seen.tally == {"ok": 8}
    assert [entry.href for entry in seen.earlier] == ["ar.c1.r1.failure"]
    assert "ar.c1.r1.failure" in drawn(seen).html


def test_what_a_log_says_cannot_become_markup() -> None:
    of = records.matrix()
    cell = records.cells(of)[0]
    evil = Failure(kind="other", message="<script>alert(1)</script>", log_tail="</pre><b>")
    made = [records.record(cell, of, metrics=None, failure=evil)]
    page = drawn(viewed(records.run(of), {r.cell.id: r for r in made}))
    assert "<script>alert" not in page.html
    assert "</pre><b>" not in page.html


def test_one_repeat_admits_that_its_spread_is_unknown(page: Page) -> None:
    assert "One repeat a cell" in page.markdown
    assert "widest range" in page_of(repeats=2).markdown


def test_the_same_records_give_the_same_page(page: Page) -> None:
    assert page_of() == page


def test_a_page_stays_small(page: Page) -> None:
    assert len(page.html) < 200_000


def test_a_run_without_a_good_record_still_has_a_page() -> None:
    of = records.matrix()
    made = [records.failed(cell, of) for cell in records.cells(of)]
    page = drawn(viewed(records.run(of), {r.cell.id: r for r in made}))
    assert "<svg" not in page.html
    assert page.html.count("failed: illegal-access") >= 8


def corner(picture: Path) -> int:
    """How light the corner of a picture is, 0 to 255."""
    with Image.open(picture) as image:
        lightness = image.convert("L").getpixel((3, 3))
    assert isinstance(lightness, int)
    return lightness


def test_a_legend_is_read_along_its_rows() -> None:
    names = [f"variant-{number}" for number in range(6)]
    svg = plots.drawn("legend", lambda _: None, names)
    told = re.findall(r'x="([\d.]+)" y="([\d.]+)"[^>]*>(variant-\d)<', svg)
    at = {name: (round(float(y)), float(x)) for x, y, name in told}
    assert sorted(names, key=lambda name: at[name]) == names


@needs_chromium
def test_a_browser_shows_it_light_and_dark(page: Page, tmp_path: Path) -> None:
    there = tmp_path / "report.html"
    there.write_text(page.html)
    assert corner(screenshot(there)) > 240
    assert corner(screenshot(there, dark=True)) < 40


@needs_chromium
def test_no_page_is_wider_than_a_phone(page: Page, tmp_path: Path) -> None:
    frame = tmp_path / "phone.html"
    measure = (
        "const d = document.querySelector('iframe').contentDocument.documentElement;"
        "document.title = `${d.scrollWidth} of ${d.clientWidth}, "
        "text ${d.querySelector('svg text').getBoundingClientRect().height}`;"
    )
    frame.write_text(
        f"<iframe width=375 height=800 frameborder=0 srcdoc='{html.escape(page.html)}'></iframe>"
        f"<script>addEventListener('load', () => {{ {measure} }});</script>"
    )
    seen = re.search(r"<title>(\d+) of (\d+), text ([\d.]+)", document(frame))
    assert seen is not None
    wide, room, text = int(seen[1]), int(seen[2]), float(seen[3])
    assert room == 375
    assert wide <= room
    assert text >= 10  # pixels


@needs_chromium
def test_a_link_to_a_record_opens_it(page: Page, tmp_path: Path) -> None:
    there = tmp_path / "report.html"
    there.write_text(
        page.html.replace("</main>", "</main><script>location.hash='cell-ar.c1.r1'</script>")
    )
    assert re.search(r'<details id="cell-ar.c1.r1" open', document(there))
