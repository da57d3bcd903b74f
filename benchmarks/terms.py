"""The terms of an additive model beside DP-EBM's, column by column, as one picture.

    DPMAC_DATA=FOLDER python benchmarks/terms.py [--table adult] [--epsilon 1] [--fits 3] [--out terms.png]
    DPMAC_DATA=FOLDER python benchmarks/terms.py --noise [--table adult] [--epsilon 1] [--fits 6]

Both get what `benchmarks/tables.py` gives them. Every term is shifted to be 0 on average over what is drawn: 200
places of a number's range, or the values of a category. One line (or dot) for each fit, so that one sees the noise; the
band is the deviation of the known noise, of our first fit. Every fit's processor time is printed; the first of a
process draws the rows that whiten. With --noise the band is compared with the spread of our terms over the fits.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from peers import data
from peers.methods import ebm, ours

Array = np.ndarray[Any, Any]
PLACES = 200
COLUMNS = 4  # panels side by side


def our_terms(table: Any, epsilon: float) -> dict[str, tuple[Array, Array]]:
    """Of every column the values at its cells, and the deviation of the noise there."""
    terms = ours(table, epsilon, additive=True)[0].terms()
    sign = 1.0
    if table.is_class and terms.outputs[0] != table.labels[1]:
        sign = -1.0
    found = {}
    for column in table.columns:
        term = terms[column.name]
        if column.is_number:
            cells = np.linspace(column.low, column.high, PLACES)
            values, band = (np.interp(cells, term.knots, numbers) for numbers in (term.values, term.band))
        else:
            values, band = (np.asarray(numbers)[: len(column.values)] for numbers in (term.values, term.band))
        found[column.name] = (sign * (values - values.mean()), band)
    return found


def ebm_terms(table: Any, epsilon: float) -> dict[str, Array]:
    """The same of DP-EBM: steps of a number, values of a category (those that it has met)."""
    model, found = ebm(table, epsilon), {}
    for place, column in enumerate(table.columns):
        scores, bins = model.term_scores_[place], model.bins_[place][0]
        if column.is_number:
            cells = np.linspace(column.low, column.high, PLACES)
            values = scores[1 + np.searchsorted(bins, cells, side="right")]  # the first is for missing cells
        else:
            values = np.array([scores[bins[v]] if v in bins else np.nan for v in column.values])
        found[column.name] = values - np.nanmean(values)
    return found


def timed(name: str, made: Callable[[Any, float], Any], table: Any, epsilon: float) -> Any:
    """The terms of a fit, whose processor time is printed, that of reading the terms off included."""
    clock = process_time()
    found = made(table, epsilon)
    print(f"{name}: {process_time() - clock:.2f} s of processor time")
    return found


def compare(table: Any, chosen: argparse.Namespace) -> None:
    """How often a value is within its band of the mean over fits, and the band beside the spread of each term."""
    fits = [ours(table, chosen.epsilon, additive=True)[0].terms() for _ in range(chosen.fits)]
    within, ratios, scale = [], [], np.sqrt(chosen.fits / (chosen.fits - 1))
    for name in fits[0]:
        values, band = (np.array([getattr(fit[name], which) for fit in fits]) for which in ("values", "band"))
        within.append((scale * np.abs(values - values.mean(axis=0)) < band).mean())
        ratios.append(np.sqrt(np.square(band).mean() / values.var(axis=0, ddof=1).mean()))
    print(f"{table.name}: {np.mean(within):.0%} of all values are within a band of their mean; of a term the band is")
    print(f"{min(ratios):.1f} to {max(ratios):.1f} times the spread, in the middle {np.median(ratios):.1f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default="adult")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("terms.png"))
    parser.add_argument("--data", type=Path, default=os.environ.get("DPMAC_DATA"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    table = data.load(chosen.data, chosen.table)
    if chosen.noise:
        compare(table, chosen)
        return
    one = [timed("dpmac, additive", our_terms, table, chosen.epsilon) for _ in range(chosen.fits)]
    other = [timed("DP-EBM", ebm_terms, table, chosen.epsilon) for _ in range(chosen.fits)]
    draw(table, one, other, chosen)
    print(chosen.out)


def draw(table: Any, one: list[Any], other: list[Any], chosen: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = sorted(one[0], key=lambda name: -np.ptp(one[0][name][0]))
    known = {column.name: column for column in table.columns}
    rows = -(-len(names) // COLUMNS)
    figure, axes = pyplot.subplots(
        rows, COLUMNS, figsize=(3.4 * COLUMNS, 2.9 * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names, strict=False):
        column, (values, band) = known[name], one[0][name]
        axis.set_title(name, fontsize=10)
        axis.grid(alpha=0.3)
        if column.is_number:
            x = np.linspace(column.low, column.high, PLACES)
            axis.fill_between(x, values - band, values + band, color="C0", alpha=0.18, linewidth=0)
            for fit in other:
                axis.step(x, fit[name], where="mid", color="C1", linewidth=1)
            for fit in one:
                axis.plot(x, fit[name][0], color="C0", linewidth=1.2)
            continue
        y = np.arange(len(column.values))
        axis.errorbar(values, y, xerr=band, fmt="none", color="C0", alpha=0.3)
        for fit in other:
            axis.plot(fit[name], y + 0.2, "s", color="C1", markersize=3)
        for fit in one:
            axis.plot(fit[name][0], y - 0.2, "o", color="C0", markersize=3)
        labels = [str(v)[:16] for v in column.values]
        if len(labels) > 16:
            axis.set_yticks([])
            axis.set_ylabel(f"{len(labels)} values", fontsize=8)
        else:
            axis.set_yticks(y, labels, fontsize=7)
    handles = [pyplot.Line2D([], [], color=colour) for colour in ("C0", "C1")]
    labels = ["dpmac, additive, and the band of its noise", "DP-EBM"]
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    title = f"{table.name}: what each column adds to the logit, epsilon {chosen.epsilon:g}, {chosen.fits} fits each"
    figure.suptitle(title, fontsize=11)
    figure.savefig(chosen.out, dpi=110)


if __name__ == "__main__":
    main()
