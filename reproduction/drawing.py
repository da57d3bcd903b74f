"""The paper's figures, drawn from the rows of the tables: curves over epochs, first-layer images, a layer's expansion.

matplotlib is imported when something is drawn. What has nothing to show is not written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpmac.privacy.statement import round_up
from reproduction.overview import draw_overview
from reproduction.rows import Picture, Point, TableRow

_DPI = 150
_UNITS = 5  # images in a row of a block


def draw_all(rows: Sequence[TableRow], metric: Mapping[str, str], folder: Path) -> list[Path]:
    """Write everything that can be drawn into ``folder``; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [
        draw_curves([row for row in rows if row.table == table], name, folder / f"curves-{table}.png")
        for table, name in metric.items()
    ]
    drawn += [draw_expansion(folder / "expansion.png"), draw_first_layers(rows, folder / "first-layer.png")]
    drawn += [draw_overview(rows, _canvas(9.0, 3.8), folder / "overview.png")]
    return [path for path in drawn if path is not None]


def _canvas(width: float, height: float) -> Any:
    """A figure that needs no screen and leaves pyplot's global state alone."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


# --- curves over epochs -----------------------------------------------------------------------------------------------


def draw_curves(rows: Sequence[TableRow], metric: str, path: Path) -> Path | None:
    """Train and test over epochs with one standard deviation around each: a panel a method, a colour an epsilon.

    Rows of panels are the settings. Methods without a training (one release, nothing to follow) are left out; so is
    the band of a single run.
    """
    followed = [row for row in rows if len(row.curve) > 1]
    if not followed:
        return None
    presets = sorted({row.preset for row in followed})
    names = list(dict.fromkeys(row.row for row in followed))
    colours = _colours(sorted({row.epsilon for row in followed}))
    figure = _canvas(max(6.0, 4.2 * len(names)), 0.9 + 3.2 * len(presets))
    panels = figure.subplots(len(presets), len(names), sharey=True, squeeze=False)
    for i, preset in enumerate(presets):
        for j, name in enumerate(names):
            here = [row for row in followed if (row.preset, row.row) == (preset, name)]
            if here:
                _panel(panels[i][j], here, colours)
                panels[i][j].set_title(f"{name}, settings: {preset}\n{_true(here)}", fontsize=9)
            else:
                panels[i][j].set_axis_off()  # settings that do not have this method
        panels[i][0].set_ylabel("error (1 - accuracy)" if "accuracy" in metric else "error")  # curves are of errors
    for column in zip(*panels, strict=True):
        lowest = [panel for panel in column if panel.axison][-1]
        lowest.set_xlabel("expected passes over the training rows")
    panels[0][0].set_ylim(_window([row.curve for row in followed]))
    _legend(figure, colours)
    runs = sorted({len(row.runs) for row in followed})
    count = f"{runs[0]} run" if runs == [1] else f"{'-'.join(str(n) for n in {runs[0]: 0, runs[-1]: 0})} runs"
    figure.suptitle(f"{followed[0].table.upper()}: mean of {count}, ±1 standard deviation")
    figure.savefig(path, dpi=_DPI)
    return path


def _true(here: Sequence[TableRow]) -> str:
    """The true epsilons of some rows, in the order of the stated ones."""
    private = sorted((row.epsilon, round_up(row.true_epsilon, 2)) for row in here if math.isfinite(row.epsilon))
    return "true ε " + " / ".join(true for _, true in private) if private else "not private"


def _panel(axes: Any, here: Sequence[TableRow], colours: Mapping[float, Any]) -> None:
    axes.grid(alpha=0.3)
    for row in here:
        epochs = [point.epoch for point in row.curve]
        colour = colours[row.epsilon]
        for name, style, shade in (("train", "--", 0.10), ("test", "-", 0.22)):
            mean = [getattr(point, name) for point in row.curve]
            spread = [getattr(point, f"{name}_std") or 0.0 for point in row.curve]
            axes.plot(epochs, mean, style, color=colour, linewidth=1.2)
            if any(spread):
                low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
                axes.fill_between(epochs, low, high, color=colour, alpha=shade, linewidth=0)


def _colours(epsilons: Sequence[float]) -> dict[float, Any]:
    """Dark to light from the smallest epsilon to the largest; no privacy is black, as it is another thing."""
    from matplotlib import colormaps

    finite = [e for e in epsilons if math.isfinite(e)]
    shades = {e: colormaps["viridis"](0.9 * i / max(1, len(finite) - 1)) for i, e in enumerate(finite)}
    return shades | {e: "black" for e in epsilons if math.isinf(e)}


def _window(curves: Sequence[Sequence[Point]]) -> tuple[float, float]:
    """The vertical range after the first tenth of each training: the first epochs would squeeze all the rest."""
    seen: list[float] = []
    for points in curves:
        for point in points[len(points) // 10 :]:
            seen += [point.train - (point.train_std or 0), point.train + (point.train_std or 0)]
            seen += [point.test - (point.test_std or 0), point.test + (point.test_std or 0)]
    margin = 0.04 * (max(seen) - min(seen)) or 0.01
    return min(seen) - margin, max(seen) + margin


def _legend(figure: Any, colours: Mapping[float, Any]) -> None:
    """One legend for all panels, below them: colours first, then the two line styles."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=c, label="not private" if math.isinf(e) else f"stated ε = {e:g}")
        for e, c in colours.items()
    ]
    handles += [Line2D([], [], color="gray", label="test"), Line2D([], [], color="gray", label="train", linestyle="--")]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


# --- first layers as images -------------------------------------------------------------------------------------------


def draw_first_layers(rows: Sequence[TableRow], path: Path) -> Path | None:
    """Images of what first-layer units look for: a block a method and its settings, in it a row an epsilon.

    Each image has its own grey scale, their range is given beside the row: units differ in size by more than their
    images do.
    """
    order = sorted(rows, key=lambda row: (row.table, row.row, row.preset, row.epsilon))
    shown = [(row, row.picture) for row in order if row.picture is not None]
    if not shown:
        return None
    methods = list(dict.fromkeys((row.table, row.row) for row, _ in shown))
    presets = list(dict.fromkeys(row.preset for row, _ in shown))
    columns = min(_UNITS, max(len(picture.images) for _, picture in shown))
    height = max(sum((r.table, r.row, r.preset) == (*m, p) for r, _ in shown) for m in methods for p in presets)
    figure = _canvas((1.4 + 0.9 * columns) * len(presets), 0.4 + (0.5 + 0.9 * height) * len(methods))
    blocks = figure.subfigures(len(methods), len(presets), squeeze=False)
    for i, method in enumerate(methods):
        for j, preset in enumerate(presets):
            here = [(row, picture) for row, picture in shown if (row.table, row.row, row.preset) == (*method, preset)]
            if here:
                blocks[i][j].suptitle(f"{method[1]}, settings: {preset}", fontsize=10)
                _image_block(blocks[i][j], here, columns)
    figure.suptitle("First-layer features (grey: 0; white and black: the largest weight of the image)", fontsize=11)
    figure.savefig(path, dpi=_DPI)
    return path


def _image_block(block: Any, here: Sequence[tuple[TableRow, Picture]], columns: int) -> None:
    """One row of images an epsilon; above them the digits for which these units weigh most, where the runs say so."""
    grid = block.subplots(len(here), columns, squeeze=False)
    for panels, (row, picture) in zip(grid, here, strict=True):
        images = picture.images[:columns]
        scales = [max(abs(float(pixel)) for pixel in image) or 1.0 for image in images]
        for panel, image, scale in zip(panels, images, scales, strict=False):  # a narrow layer leaves places empty
            panel.imshow(_in_lines(image, picture.shape), cmap="gray", vmin=-scale, vmax=scale)
        for panel in panels:
            panel.set_axis_off()
        budget = "not private"
        if math.isfinite(row.epsilon):
            budget = f"stated ε = {row.epsilon:g}\ntrue ε = {round_up(row.true_epsilon, 2)}"
        label = f"{budget}\nmax |w|\n{min(scales):.2g} to {max(scales):.2g}"
        panels[0].text(-0.12, 0.5, label, transform=panels[0].transAxes, ha="right", va="center", fontsize=8)
    for panel, digit in zip(grid[0], here[0][1].digits, strict=False):
        panel.set_title(f"for {digit}", fontsize=8)


def _in_lines(image: Sequence[float], shape: Sequence[int]) -> list[list[float]]:
    height, width = shape
    return [[float(pixel) for pixel in image[i * width : (i + 1) * width]] for i in range(height)]


# --- a layer's expansion ----------------------------------------------------------------------------------------------


def draw_expansion(path: Path) -> Path:
    """A layer's loss of one weight (black), its 2nd-order expansion at 0 (red), and the noise around that (crosses)."""
    from dpmac.randomness import SeededNoise
    from reproduction.layer_expansion import ROWS, SIGMA, layer_curves, layer_problems

    source = SeededNoise(0)
    figure = _canvas(9.0, 3.9)
    for axes, problem in zip(figure.subplots(1, 2), layer_problems(source), strict=True):
        shown = layer_curves(problem, source)
        axes.plot(shown.crosses, shown.noisy, "x", color="tab:blue", markersize=3.5, alpha=0.6, label="with noise")
        axes.plot(shown.weights, shown.loss, color="black", label="layer loss")
        axes.plot(shown.weights, shown.expansion, color="tab:red", linestyle="--", label="2nd-order expansion at 0")
        axes.axvline(problem.w_true, color="gray", linewidth=0.8, linestyle=":", label=f"true w = {problem.w_true:g}")
        axes.set(title=f"{problem.name}, softplus, d = 1", xlabel="w", ylabel="loss, averaged over rows")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.suptitle(f"One release of both layers' a, b, C on {ROWS} rows, noise multiplier {SIGMA:g}", fontsize=10)
    figure.savefig(path, dpi=_DPI)
    return path
