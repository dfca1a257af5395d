"""A matplotlib figure as inline SVG whose colours are the page's, light or dark.

Figures are drawn in stand-in colours; here each becomes the CSS variable it stands for, and
everything a page does not need (prologue, metadata, ids that would clash) goes.
"""

from __future__ import annotations

import io
import re
from contextlib import AbstractContextManager
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

INK: Final = "#010101"
FAINT: Final = "#020202"
SERIES: Final = tuple(f"#0303{number:02x}" for number in range(1, 9))
"""The first is `ar`; the page gives every one a colour in light and in dark."""

_VARIABLES: Final = {
    INK: "--ink",
    FAINT: "--faint",
    **{colour: f"--series-{number}" for number, colour in enumerate(SERIES)},
}
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",  # text stays text: small, selectable, in the page's font
    "svg.hashsalt": "ddops",  # the same figure gives the same bytes
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "axes.grid": True,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def style() -> AbstractContextManager[None]:
    """Figures made inside look like the page."""
    return mpl.rc_context(_STYLE)


def inline(figure: Figure, name: str) -> str:
    """`name` makes the ids of this figure its own."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(?::\w+)?="[^"]*"| version="1.1"', "", text)
    text = re.sub(r"<g id=\"[^\"]*\"", "<g", text)
    text = re.sub(r'(id="|url\(#|href="#)(?!cell-)', rf"\g<1>{name}-", text)
    text = re.sub(r" ?font-family: [^;\"]*;?", "", text)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    text = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"', "", text, count=1)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return re.sub(r">\s+<", "><", text).strip()
