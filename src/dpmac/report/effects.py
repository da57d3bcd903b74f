"""What a model makes of each column, around a reference row, and what comes back of synthetic rows.

Everything here asks a released model about rows that are public or that nobody is in (:mod:`dpmac.report.synthetic`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpmac.report.exchanged import exchanged
from dpmac.report.synthetic import Array, Cells, Maker
from dpmac.showing import Tell
from dpmac.tables import ColumnKind, Schema

ROWS = 200  # synthetic rows of a way back
POINTS = 21  # of a number's range; with more than WIDE columns FEW
WIDE, FEW = 40, 5
BLOCK = 4096  # rows that are asked about at a time
CELLS = 2_000_000  # of whole rows that are asked about at most: with more, of the first columns only
MANY = 4  # outputs that are drawn at most


@dataclass(frozen=True)
class Effect:
    """Of one column the values tried, and the prediction (values, outputs) for the reference row with each of them.

    ``noise`` is how much of that may be the noise of the training: predictions of the noisy copies less those of the
    model (copies, values, outputs), counted from the reference; empty if it is not known.
    """

    column: str
    of: ColumnKind
    cells: Cells
    means: Array
    noise: Array

    @property
    def size(self) -> float:
        """How far the column moves a prediction: largest less smallest, of the output that moves most."""
        return float(np.ptp(self.means, axis=0).max())

    @property
    def band(self) -> Array | None:
        """Two deviations of the noise at each value (values, outputs); None if it is not known."""
        if not len(self.noise):
            return None
        found: Array = 2 * np.sqrt(np.square(self.noise).mean(axis=0))
        return found

    @property
    def drowned(self) -> bool:
        """Whether noise alone would have moved the prediction as far, in half of the copies or more."""
        if not len(self.noise):
            return False
        alone = np.ptp(self.noise, axis=1).max(axis=1)
        return bool(np.mean(alone >= self.size) >= 0.5)


@dataclass(frozen=True)
class Effects:
    """All columns, those that move the prediction most first and those that drown in noise last; what the outputs are
    called; the reference row's cells in words, and what is predicted for it."""

    outputs: tuple[str, ...]
    probabilities: bool
    columns: tuple[Effect, ...]
    reference: dict[str, str]
    there: Array
    left_out: int = 0  # outputs that move less
    not_tried: int = 0  # columns, the last ones, of a model that has to be asked with whole rows


@dataclass(frozen=True)
class WayBack:
    """Synthetic rows before and after the code, and of each column how much of its spread comes back.

    Of a column whose values lie on a line that is 1 less the mean squared error over the variance (0 at least); of any
    other the part of rows that come back as they were, less what the commonest answer alone would have right, over the
    rest.
    """

    before: dict[str, Array]
    after: dict[str, Array]
    kept: dict[str, float]


def effects_of(
    estimator: Any,
    maker: Maker,
    schema: Schema | None,
    copies: Sequence[Any] = (),
    reference: Mapping[str, float] | None = None,
    tell: Tell | None = None,
) -> Effects:
    """The effect of every column on a classifier's probabilities or a regressor's values: one is changed at a time, and
    the others stay at the reference row.

    The work grows with the number of values that are tried (:mod:`dpmac.report.exchanged`). A model whose kind is not
    known there is asked with whole rows, of which a value costs as much as there are columns: with very many columns
    the first of them only are tried. ``tell`` hears how many columns are done.

    ``copies`` differ from the estimator by the noise of its training (:mod:`dpmac.report.noise`); ``reference`` are
    codes of a public row, for the columns that it knows, and the middle of ranges and first values are used for others.
    """
    outputs, places, probabilities = _outputs(estimator, schema)
    points = POINTS if len(maker.columns) <= WIDE else FEW
    base = maker.usual(reference or {})
    tried = {name: maker.tried(name, points) for name in maker.columns}
    read, tell = partial(_predictions, probabilities=probabilities), tell or _nothing
    asked = exchanged(estimator, copies, maker, base, tried, read, tell)
    if asked is None:
        tried = _affordable(tried)
        asked = _asked(estimator, copies, maker, base, tried, probabilities, tell)
    asked = asked[:, :, places]
    there, start, found = asked[:, :1], 1, list[Effect]()
    for name, cells in tried.items():
        own = asked[:, start : start + len(cells.values)]
        start += len(cells.values)
        moved = own - there
        found.append(Effect(name, maker.columns[name], cells, own[0], moved[1:] - moved[0]))
    found.sort(key=lambda one: (one.drowned, -one.size))
    left_out = max(0, len(outputs) - MANY)
    if left_out:  # the outputs that any column moves most
        moved = np.max([np.ptp(one.means, axis=0) for one in found], axis=0)
        kept = sorted(np.argsort(-moved)[:MANY].tolist())
        outputs, there = tuple(outputs[k] for k in kept), there[:, :, kept]
        found = [replace(one, means=one.means[:, kept], noise=one.noise[:, :, kept]) for one in found]
    words = {name: maker.columns[name].label(cell) for name, cell in base.items()}
    not_tried = len(maker.columns) - len(found)
    return Effects(outputs, probabilities, tuple(found), words, there[0, 0], left_out, not_tried)


def _nothing(done: int, total: int) -> None:
    """Nobody listens."""
    del done, total


def _affordable(tried: Mapping[str, Cells]) -> dict[str, Cells]:
    """The first columns, as many as may be tried with whole rows; always one."""
    found, rows = dict[str, Cells](), 0
    for name, cells in tried.items():
        rows += len(cells.values)
        if found and rows * len(tried) > CELLS:
            break
        found[name] = cells
    return found


def _asked(
    estimator: Any,
    copies: Sequence[Any],
    maker: Maker,
    base: Mapping[str, Any],
    tried: Mapping[str, Cells],
    probabilities: bool,
    tell: Tell,
) -> Array:
    """Predictions (1 + copies, 1 + values, outputs): the reference row's, and with each value of each column, asked
    with whole rows."""
    count = 1 + sum(len(cells.values) for cells in tried.values())
    found = list[Array]()
    starts = dict[str, int]()
    start = 1
    for name, cells in tried.items():
        starts[name] = start
        start += len(cells.values)
    for first in range(0, count, BLOCK):
        rows = min(BLOCK, count - first)
        table = dict[str, Array]()
        for name, column in maker.columns.items():
            made = np.empty(rows, dtype=column.dtype)
            made[:] = base[name]
            if name in tried:
                for place, value in enumerate(tried[name].values):
                    row = starts[name] + place - first
                    if 0 <= row < rows:
                        made[row] = value
            table[name] = made
        shaped = maker.shaped(table)
        found.append(
            np.stack([_predictions(one, given, probabilities) for one, given in _read(estimator, copies, shaped)])
        )
        tell(sum(start <= first + rows for start in starts.values()), len(tried))
    return np.concatenate(found, axis=1)


def _read(estimator: Any, copies: Sequence[Any], table: Any) -> list[tuple[Any, Any]]:
    """The estimator and its copies, each with what to ask it: cells are read once for all copies."""
    if not copies:
        return [(estimator, table)]
    raw = estimator._raw(table)
    found = []
    for one in (estimator, *copies):
        reader = copy.copy(one)
        reader._raw = lambda rows: rows
        found.append((reader, raw))
    return found


def way_back(coder: Any, maker: Maker, rows: int = ROWS) -> WayBack:
    """Synthetic rows to codes and back."""
    before = maker.rows(rows)
    made = coder.inverse_transform(coder.transform(maker.shaped(before)))
    if maker.named:
        after = dict(made)
    else:
        after = {name: made[:, place] for place, name in enumerate(maker.columns)}
    kept = {name: _kept(column, before[name], after[name]) for name, column in maker.columns.items()}
    return WayBack(before, after, kept)


def _kept(column: ColumnKind, before: Array, after: Array) -> float:
    if not column.ordered:
        right = float(np.mean([a == b for a, b in zip(before, after, strict=True)]))
        common = float(max(np.unique(before.astype(str), return_counts=True)[1])) / len(before)
        if common < 1:
            return max(0.0, (right - common) / (1 - common))
        return right
    there, back = column.positions(before), column.positions(after)
    middle = (float(there.min()) + float(there.max())) / 2
    missed = np.where(np.isnan(back), middle, back) - there
    return float(np.clip(1 - np.mean(missed**2) / max(np.var(there), 1e-300), 0, 1))


def _outputs(estimator: Any, schema: Schema | None) -> tuple[tuple[str, ...], list[int], bool]:
    """What the predictions are called, which of them are looked at, and whether they are probabilities.

    Of two classes the positive one is enough; of several labels each is one.
    """
    if not hasattr(estimator, "predict_proba"):
        return (_target_of(schema) or "prediction",), [0], False
    names = [str(label) for label in estimator.classes_]
    if len(names) == 2 and getattr(estimator, "_indicator", None) is None:
        positive = None
        if schema is not None:
            positive = schema.positive
        place = 1
        if positive in names:
            place = names.index(positive)
        return (names[place],), [place], True
    return tuple(names), list(range(len(names))), True


def _target_of(schema: Schema | None) -> str | None:
    if schema is None:
        return None
    return schema.target


def _predictions(estimator: Any, table: Any, probabilities: bool) -> Array:
    if probabilities:
        predict = estimator.predict_proba
    else:
        predict = estimator.predict
    found = np.asarray(predict(table), dtype=np.float64)
    if found.ndim == 1:
        found = found[:, None]
    return found
