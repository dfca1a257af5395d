"""What cells drew and what limited them, as a reader of the report sees it."""

from __future__ import annotations

import math
import re

import pytest

from ddops.analysis.telemetry import Expected, absent, telemetry
from ddops.flows.report import drawn, viewed
from ddops.report.page import Page
from ddops.spec.telemetry import Telemetry
from tests.ddops import records, sampled


def wave(t: float) -> float:
    return 400 + 150 * math.sin(t)


def on_gpus(count: int = 1) -> Telemetry:
    text = sampled.text(gpus=count, watts=wave)
    return telemetry(text, sampled.WINDOW, Expected(tokens=2000, gpus=count, used=count))


def on_cpu() -> Telemetry:
    why = {"gpus": "nvidia-smi tells of no GPU, or is not installed"}
    text = sampled.text(gpus=0, why=why)
    return telemetry(text, sampled.WINDOW, Expected(tokens=2000, gpus=0, used=0))


def page_of(told: Telemetry | None) -> Page:
    of = records.matrix()
    made = [records.record(cell, of, telemetry=told) for cell in records.cells(of)]
    return drawn(viewed(records.run(of), {f"../{r.cell.id}.json": r for r in made}))


@pytest.fixture(scope="module")
def gpus() -> Page:
    return page_of(on_gpus(2))


@pytest.fixture(scope="module")
def cpu() -> Page:
    return page_of(on_cpu())


def test_a_run_without_samples_has_no_word_of_power() -> None:
    page = page_of(None)
    for text in (page.html, page.markdown):
        assert "Power" not in text


def test_every_number_of_power_leads_to_its_record(gpus: Page) -> None:
    start = gpus.html.index("Power and limits")
    table = gpus.html[start : gpus.html.index("</tbody>", start)]
    shown = re.findall(r"<td>(.*?)</td>", table)
    numbers = [text for text in shown if re.search(r"\d\.\d|\d%", text)]
    assert len(numbers) >= 8 * 4
    assert all(text.startswith('<a href="#cell-') for text in numbers)


def test_a_row_tells_power_energy_use_and_the_limit(gpus: Page) -> None:
    line = next(x for x in gpus.markdown.splitlines() if "of 1400" in x)
    cells = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell).strip() for cell in line.split("|")[1:-1]]
    assert cells[:2] == ["ar", "1"]
    assert cells[2] == "573 / 825 of 1400"  # 1.5 GPUs' worth of 382 and 550 W
    assert cells[4:] == ["75%", "0%", "1.5 of 2", "host-bound"]


def test_every_bottleneck_comes_with_its_reason_and_what_it_lacked(gpus: Page) -> None:
    assert gpus.markdown.count("host-bound. No kernel runs 25% of the time, while") == 8
    wanted = "it would be surer with: the bytes of a step, or the GPU&#39;s bandwidth; "
    assert gpus.html.count(wanted) == 1


def test_power_is_drawn_over_time_a_line_for_each_variant(gpus: Page) -> None:
    start = gpus.html.index("Power over time")
    figure = gpus.html[start : gpus.html.index("</figure>", start)]
    assert "What the GPUs that serve draw together, at C=4." in figure
    assert set(re.findall(r'href="#cell-(\S+?)\.c4', figure)) == set(records.ACCEPT)


def test_without_gpus_the_cores_of_the_service_are_drawn(cpu: Page) -> None:
    assert "Load over time" in cpu.html
    assert "this box tells no power, at C=4." in cpu.html
    head = cpu.markdown.split("## Power and limits")[1].split("|---")[0]
    assert head.strip() == "| variant | C | cores used | limited by |"
    assert "gpus not read: nvidia-smi tells of no GPU" in cpu.markdown
    assert "The service takes 1.5 of 2 cores, others 0.3: the CPU is the limit" in cpu.markdown


def test_why_no_energy_is_told_stands_below_the_table() -> None:
    page = page_of(absent("the box `far` cannot be sampled: no python"))
    assert "no energy of ar.c1.r1: the box `far` cannot be sampled: no python" in page.markdown
    assert "over time" not in page.html


def test_a_driver_that_counts_another_energy_is_told() -> None:
    """The samples of `wave` are 3822 J, while the made-up driver counts 400 W all along."""
    assert (
        "ar.c1.r1: GPU 0: its driver counted 4000 J, its power" not in page_of(on_gpus()).markdown
    )
    text = sampled.text(watts=lambda t: 300.0)
    told = telemetry(text, sampled.WINDOW, Expected(tokens=2000, gpus=1, used=1))
    said = "ar.c1.r1: GPU 0: its driver counted 4000 J, its power gives 3000"
    assert said in page_of(told).markdown


def test_a_cell_that_is_no_measurement_has_no_power() -> None:
    of = records.matrix()
    cell = records.cells(of)[0]
    red = records.invalid(cell, of).model_copy(update={"telemetry": on_gpus()})
    page = drawn(viewed(records.run(of), {"../ar.json": red}))
    assert "Power" not in page.markdown
    assert "J/token" not in page.markdown.split("## What the words mean")[0]
