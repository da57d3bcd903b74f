"""The pages' figures, drawn by the build: one module each, with ``SIZE`` and ``draw(figure, ink)``.

Every figure is drawn twice, for a light and for a dark page, as ``NAME-light.svg`` and ``NAME-dark.svg``.
"""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

NAMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))
INKS = {"light": "#1f2933", "dark": "#dfe4ea"}
COLOURS = (
    "#0d9488",
    "#ea580c",
    "#6366f1",
    "#a16207",
    "#be185d",
)  # read well on both pages


def drawn() -> dict[str, bytes]:
    """Every figure's file name and content."""
    return {
        f"{name}-{page}.svg": _svg(name, ink)
        for name in NAMES
        for page, ink in INKS.items()
    }


def _svg(name: str, ink: str) -> bytes:
    figure_of = import_module(f"figures.{name}")
    look = {
        "text.color": ink,
        "axes.edgecolor": ink,
        "axes.labelcolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 11,
        "svg.hashsalt": name,  # the same file for the same picture
    }
    with matplotlib.rc_context(look):
        figure = Figure(figsize=figure_of.SIZE, layout="constrained")
        figure_of.draw(figure, ink)
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()
