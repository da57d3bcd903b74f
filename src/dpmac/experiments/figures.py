"""The paper's figures, drawn from finished runs: curves over epochs, first-layer features, and a layer's expansion.

matplotlib is imported when something is drawn. A figure for which there is nothing to show is not written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmac.experiments.store import Finished
from dpmac.experiments.tables import Group, Point, groups, mean_curve
from dpmac.privacy.statement import round_up

if TYPE_CHECKING:
    from torch import Tensor

    from dpmac.mac.polynomial import Polynomial

_DPI = 150
_FEATURES = 5  # images in a row of a block of the features' figure


def draw_all(finished: Sequence[Finished], metric: Mapping[str, str], folder: Path) -> list[Path]:
    """Write every figure that can be drawn into ``folder``; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [curves(finished, table, name, folder / f"curves-{table}.png") for table, name in metric.items()]
    drawn += [expansion(folder / "expansion.png"), features(finished, folder / "features.png")]
    return [path for path in drawn if path is not None]


def _canvas(width: float, height: float) -> Any:
    """A figure that needs no screen and leaves pyplot's global state alone."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


# --- curves over epochs -----------------------------------------------------------------------------------------------


def curves(finished: Sequence[Finished], table: str, metric: str, path: Path) -> Path | None:
    """Train and test over epochs with one standard deviation around each: a panel a method, a colour an epsilon.

    Rows of panels are the settings. Methods without a training (one release, nothing to follow) are left out; so is
    the band of a single run.
    """
    followed = [(group, points) for group in groups(finished, table) if len(points := mean_curve(group.runs)) > 1]
    if not followed:
        return None
    presets = sorted({group.preset for group, _ in followed})
    rows = list(dict.fromkeys(group.row for group, _ in followed))
    colours = _colours(sorted({group.epsilon for group, _ in followed}))
    figure = _canvas(max(6.0, 4.2 * len(rows)), 0.9 + 3.2 * len(presets))
    panels = figure.subplots(len(presets), len(rows), sharey=True, squeeze=False)
    for i, preset in enumerate(presets):
        for j, row in enumerate(rows):
            here = [(group, points) for group, points in followed if (group.preset, group.row) == (preset, row)]
            if here:
                _panel(panels[i][j], here, colours)
                panels[i][j].set_title(f"{row}, settings: {preset}\n{_true([g for g, _ in here])}", fontsize=9)
            else:
                panels[i][j].set_axis_off()  # settings that do not have this method
        panels[i][0].set_ylabel("error (1 - accuracy)" if "accuracy" in metric else "error")  # curves are of errors
    for column in zip(*panels, strict=True):
        lowest = [panel for panel in column if panel.axison][-1]
        lowest.set_xlabel("expected passes over the training rows")
    panels[0][0].set_ylim(_window([points for _, points in followed]))
    _legend(figure, colours)
    runs = sorted({len(group.runs) for group, _ in followed})
    count = f"{runs[0]} run" if runs == [1] else f"{'-'.join(str(n) for n in {runs[0]: 0, runs[-1]: 0})} runs"
    figure.suptitle(f"{table.upper()}: mean of {count}, ±1 standard deviation")
    figure.savefig(path, dpi=_DPI)
    return path


def _true(here: Sequence[Group]) -> str:
    """The true epsilons of some groups, in the order of the stated ones."""
    private = sorted((group.epsilon, round_up(group.true_epsilon, 2)) for group in here if math.isfinite(group.epsilon))
    return "true ε " + " / ".join(true for _, true in private) if private else "not private"


def _panel(axes: Any, here: Sequence[tuple[Group, list[Point]]], colours: Mapping[float, Any]) -> None:
    axes.grid(alpha=0.3)
    for group, points in here:
        epochs = [point.epoch for point in points]
        colour = colours[group.epsilon]
        for name, style, shade in (("train", "--", 0.10), ("test", "-", 0.22)):
            mean = [getattr(point, name) for point in points]
            spread = [getattr(point, f"{name}_std") or 0.0 for point in points]
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


def _window(all_points: Sequence[Sequence[Point]]) -> tuple[float, float]:
    """The vertical range after the first tenth of each training: the first epochs would squeeze all the rest."""
    seen: list[float] = []
    for points in all_points:
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


# --- first-layer features ---------------------------------------------------------------------------------------------


def features(finished: Sequence[Finished], path: Path) -> Path | None:
    """Images of what first-layer units look for: a block a method and its settings, in it a row an epsilon.

    Of every row that kept its first layer, the run of the lowest seed. Each image has its own grey scale, their range
    is given beside the row: units differ in size by more than their features do.
    """
    shown = _with_first_layer(finished)
    if not shown:
        return None
    methods = list(dict.fromkeys((group.table, group.row) for group, _ in shown))
    presets = list(dict.fromkeys(group.preset for group, _ in shown))
    columns = min(_FEATURES, max(len(run.result["first_layer"]) for _, run in shown))
    rows = max(sum((g.table, g.row, g.preset) == (*m, p) for g, _ in shown) for m in methods for p in presets)
    size = (1.4 + 0.9 * columns) * len(presets), 0.4 + (0.5 + 0.9 * rows) * len(methods)
    figure = _canvas(*size)
    blocks = figure.subfigures(len(methods), len(presets), squeeze=False)
    for i, (table, row) in enumerate(methods):
        for j, preset in enumerate(presets):
            here = [(g, run) for g, run in shown if (g.table, g.row, g.preset) == (table, row, preset)]
            if here:
                blocks[i][j].suptitle(f"{row}, settings: {preset}", fontsize=10)
                _feature_block(blocks[i][j], here, columns)
    figure.suptitle("First-layer features (grey: 0; white and black: the largest weight of the image)", fontsize=11)
    figure.savefig(path, dpi=_DPI)
    return path


def _feature_block(block: Any, here: Sequence[tuple[Group, Finished]], columns: int) -> None:
    """One row of images an epsilon; above them the digits for which these units weigh most, where the runs say so."""
    grid = block.subplots(len(here), columns, squeeze=False)
    for panels, (group, run) in zip(grid, here, strict=True):
        rows = run.result["first_layer"][:columns]
        scales = [max(abs(float(pixel)) for pixel in row) or 1.0 for row in rows]
        for panel, row, scale in zip(panels, rows, scales, strict=False):  # a narrow layer leaves places empty
            panel.imshow(_image(row, run.result["image_shape"]), cmap="gray", vmin=-scale, vmax=scale)
        for panel in panels:
            panel.set_axis_off()
        budget = "not private"
        if math.isfinite(group.epsilon):
            budget = f"stated ε = {group.epsilon:g}\ntrue ε = {round_up(group.true_epsilon, 2)}"
        label = f"{budget}\nmax |w|\n{min(scales):.2g} to {max(scales):.2g}"
        panels[0].text(-0.12, 0.5, label, transform=panels[0].transAxes, ha="right", va="center", fontsize=8)
    for panel, digit in zip(grid[0], here[0][1].result.get("digits", ()), strict=False):
        panel.set_title(f"for {digit}", fontsize=8)


def _with_first_layer(finished: Sequence[Finished]) -> list[tuple[Group, Finished]]:
    found = [
        (group, next(run for run in group.runs if run.result.get("first_layer")))
        for table in dict.fromkeys(run.table for run in finished)
        for group in groups(finished, table)
        if any(run.result.get("first_layer") for run in group.runs)
    ]
    return sorted(found, key=lambda pair: (pair[0].table, pair[0].row, pair[0].preset, pair[0].epsilon))


def _image(row: Sequence[float], shape: Sequence[int]) -> list[list[float]]:
    height, width = shape
    return [[float(pixel) for pixel in row[i * width : (i + 1) * width]] for i in range(height)]


# --- a layer's expansion ----------------------------------------------------------------------------------------------

_ROWS, _T_Z, _SIGMA = 500, 1.25, 1.0  # T_z covers all coordinates below: softplus(0.7 * 1.25) = 1.22


@dataclass(frozen=True)
class LayerProblem:
    """One weight w, no bias: rows of inputs, and the targets softplus(w_true * input)."""

    name: str
    w_true: float
    inputs: Tensor
    targets: Tensor


def layer_problems(source: Any) -> list[LayerProblem]:
    """The paper's example: a first layer with w = -0.7 on scalars x, and an output layer with w = 0.7 on top of it."""
    from dpmac.nets.activations import SOFTPLUS

    x = source.normal((_ROWS, 1)).clamp(-_T_Z, _T_Z)
    z = SOFTPLUS.f(-0.7 * x)
    return [LayerProblem("input layer", -0.7, x, z), LayerProblem("output layer", 0.7, z, SOFTPLUS.f(0.7 * z))]


def expanded(problem: LayerProblem) -> tuple[Polynomial, tuple[float, float, float]]:
    """T(w) = sum_n (z_n - f(w x_n))^2 to 2nd order around 0, and the standard deviations of the noise on a, b and C.

    All three coefficients of both layers are released at once, so each has sqrt(MK) = sqrt(6) times its sensitivity.
    """
    import torch

    from dpmac.mac.polynomial import Polynomial
    from dpmac.nets.activations import SOFTPLUS
    from dpmac.nets.losses import SquaredError
    from dpmac.privacy.sensitivity import layer_sensitivity

    loss, x = SquaredError(SOFTPLUS), problem.inputs
    centre, u = torch.zeros(1, 1, dtype=torch.float64), torch.zeros_like(x)
    slope = (loss.slope(u, problem.targets) * x).sum(dim=0).reshape(1, 1)
    curvature = (loss.curvature(u, problem.targets) * x.square()).sum(dim=0).reshape(1, 1, 1)
    bound = layer_sensitivity(loss, centre, None, _T_Z)
    scale = math.sqrt(3 * 2) * _SIGMA
    polynomial = Polynomial(centre, slope, curvature, loss.value(u, problem.targets).sum())
    return polynomial, (scale * bound.a, scale * bound.b, scale * bound.C)


def expansion(path: Path) -> Path:
    """A layer's loss of one weight (black), its 2nd-order expansion at 0 (red), and the noise around that (crosses).

    A cross at w is the released polynomial there, a~ + b~ w + C~ w^2, with fresh noise for each; over 2N, as the loss.
    """
    import torch

    from dpmac.nets.activations import SOFTPLUS
    from dpmac.nets.losses import SquaredError
    from dpmac.privacy.noise import SeededNoise

    source = SeededNoise(0)
    loss, average = SquaredError(SOFTPLUS), 1 / (2 * _ROWS)
    figure = _canvas(9.0, 3.9)
    weights = torch.linspace(-1.5, 1.5, 121, dtype=torch.float64)
    for axes, problem in zip(figure.subplots(1, 2), layer_problems(source), strict=True):
        polynomial, spread = expanded(problem)
        true = [float(loss.value(w * problem.inputs, problem.targets).sum()) * average for w in weights]
        close = [float(polynomial.value(w.reshape(1, 1))) * average for w in weights]
        crosses = weights[::4].repeat(6)
        noise = source.normal((3, len(crosses))) * torch.tensor(spread, dtype=torch.float64).unsqueeze(1)
        noisy = torch.tensor([float(polynomial.value(w.reshape(1, 1))) for w in crosses], dtype=torch.float64)
        noisy = (noisy + noise[0] + noise[1] * crosses + noise[2] * crosses.square()) * average
        axes.plot(crosses, noisy, "x", color="tab:blue", markersize=3.5, alpha=0.6, label="with noise")
        axes.plot(weights, true, color="black", label="layer loss")
        axes.plot(weights, close, color="tab:red", linestyle="--", label="2nd-order expansion at 0")
        axes.axvline(problem.w_true, color="gray", linewidth=0.8, linestyle=":", label=f"true w = {problem.w_true:g}")
        axes.set(title=f"{problem.name}, softplus, d = 1", xlabel="w", ylabel="loss, averaged over rows")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.suptitle(f"One release of both layers' a, b, C on {_ROWS} rows, noise multiplier {_SIGMA:g}", fontsize=10)
    figure.savefig(path, dpi=_DPI)
    return path
