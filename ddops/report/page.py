"""The view as text: one self-contained HTML page, one Markdown file. No file is touched here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jinja2 import DictLoader, Environment, StrictUndefined

from ddops.report.view import View


@dataclass(frozen=True)
class Page:
    html: str
    markdown: str


def page(view: View, template: Callable[[str], str]) -> Page:
    """`template` gives the text of a template by name, for example `report.html.j2`."""
    from ddops.report.over_time import over_time  # with matplotlib: 0.5 s only a drawing pays
    from ddops.report.plots import plots
    from ddops.report.scaling import scaling, steps

    course = over_time(view.groups)
    others = (scaling(view.groups), steps(view.breakdown), course)
    drawn = (*plots(view.groups), *(plot for plot in others if plot is not None))
    return Page(
        html=render("report.html.j2", template, view=view, plots=drawn),
        markdown=render("report.md.j2", template, view=view),
    )


def render(name: str, template: Callable[[str], str], **values: object) -> str:
    """`values` are those that the first line of the template lists."""
    environment = Environment(
        loader=DictLoader({name: template(name)}),
        undefined=StrictUndefined,
        autoescape=name.endswith(".html.j2"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name).render(values)
