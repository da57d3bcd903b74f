"""What a model makes of each column, on synthetic rows: partial dependence, and what comes back of a row.

Everything here asks a released model about rows that nobody is in (:mod:`dpmac.report.synthetic`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmac.report.synthetic import Array, Cells, Maker
from dpmac.tables import ColumnKind, Schema

ROWS = 200  # synthetic rows that each value is tried on
POINTS = 21  # of a number's range
ASKED = 600_000  # predictions at most: with very many columns fewer rows and points are tried
MANY = 4  # outputs that are drawn at most


@dataclass(frozen=True)
class Effect:
    """Of one column the values tried, and the mean prediction (values, outputs) over synthetic rows that have each."""

    column: str
    of: ColumnKind
    cells: Cells
    means: Array

    @property
    def size(self) -> float:
        """How far the column moves a prediction: largest less smallest mean, of the output that moves most."""
        return float((self.means.max(axis=0) - self.means.min(axis=0)).max())


@dataclass(frozen=True)
class Effects:
    """All columns, those that move the prediction most first; what the outputs are called, and how many rows."""

    outputs: tuple[str, ...]
    probabilities: bool
    columns: tuple[Effect, ...]
    rows: int
    left_out: int = 0  # outputs that move less


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


def effects_of(estimator: Any, maker: Maker, schema: Schema | None) -> Effects:
    """The effect of every column on a classifier's probabilities or a regressor's values."""
    outputs, places, probabilities = _outputs(estimator, schema)
    count = len(maker.columns)
    points = POINTS
    if count > 40:
        points = 5
    rows = max(10, min(ROWS, ASKED // (count * points)))
    base = maker.rows(rows)

    def effect(name: str) -> Effect:
        cells = maker.tried(name, points)
        many = {other: np.tile(values, len(cells.values)) for other, values in base.items()}
        column = maker.columns[name]
        many[name] = np.repeat(np.array(cells.values, dtype=column.dtype), rows)
        found = _predictions(estimator, maker.shaped(many), probabilities)[:, places]
        means = found.reshape(len(cells.values), rows, -1).mean(axis=1)
        return Effect(name, column, cells, means)

    found = sorted((effect(name) for name in maker.columns), key=lambda one: -one.size)
    left_out = max(0, len(outputs) - MANY)
    if left_out:  # the outputs that any column moves most
        moved = np.max([one.means.max(axis=0) - one.means.min(axis=0) for one in found], axis=0)
        kept = sorted(np.argsort(-moved)[:MANY].tolist())
        outputs = tuple(outputs[k] for k in kept)
        found = [Effect(one.column, one.of, one.cells, one.means[:, kept]) for one in found]
    return Effects(outputs, probabilities, tuple(found), rows, left_out)


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
