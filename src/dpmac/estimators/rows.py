"""The way from what a user has, a table or an array, to rows of numbers and their public front."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.estimators.arrays import validate_data
from dpmac.estimators.budget import Budgeted
from dpmac.estimators.guarantee import Privacy
from dpmac.estimators.ids import warn_of_ids
from dpmac.nets.fronts import Front, ToRange
from dpmac.privacy import Persons, PrivateRows
from dpmac.privacy.groups import MOST, ROW
from dpmac.tables import Schema, TableEncoder
from dpmac.tables.columns import Column
from dpmac.tables.frames import cells

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Given:
    """What ``fit`` was given: raw rows and, where the unit of privacy is a person, whose they are. It is never kept."""

    x: Tensor
    persons: Persons | None = None

    @property
    def n(self) -> int:
        """The number of persons, else of rows: public, and what every plan and default follows from."""
        return len(self.x) if self.persons is None else len(self.persons)

    @property
    def spots(self) -> int:
        """Rows that a release on all of it has room for: public."""
        return self.n * (1 if self.persons is None else self.persons.together)

    @property
    def unit(self) -> str:
        return ROW if self.persons is None else self.persons.unit

    def table(self, *targets: Tensor) -> PrivateRows:
        """The private table."""
        return PrivateRows(self.x, *targets, groups=self.persons)


class OnRows(Budgeted):
    """An estimator of tables with a ``schema``, or of arrays with (or without) a ``feature_range``."""

    schema: Schema | Mapping[str, Any] | None
    feature_range: tuple[Any, Any] | None
    max_rows: int
    front_: Front | None
    privacy_: Privacy
    _bins = 12  # pieces of a numeric code
    _labels_may_be_several = False  # whether y may be a matrix, (n, labels)

    def save(self, folder: str | Path, *, extra: Mapping[str, Any] | None = None) -> Path:
        """Write the fitted model to a new folder; ``dpmac.load`` gives it back. See :func:`dpmac.saving.save`."""
        import dpmac  # by the front door: saving is a room above this one

        return dpmac.save(self, folder, extra=extra)

    def _encoder(self) -> TableEncoder | None:
        if self.schema is None:
            return None
        if self.feature_range is not None:
            fix = "the schema has the ranges: leave feature_range out"
            raise ArgumentError("feature_range", self.feature_range, fix)
        return TableEncoder(self.schema, self._bins)

    def _target_column(self) -> Column | None:
        """What the schema says of its target; None without a schema or a target."""
        encoder = self._encoder()
        return None if encoder is None else encoder.schema.target_column

    def _checked(self, X: Any, y: Any, groups: Any = None) -> tuple[Given, Any]:
        """Raw rows and targets, looked over, enough of them, and a delta that suits them."""
        self._check_budget()
        table = X
        encoder = self._encoder()
        if encoder is None:
            several = self._labels_may_be_several
            X, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=1, multi_output=several)
            return self._enough(self._looked_over(X), table, groups), y
        if y is None:
            y = _target_of(encoder.schema, X)
        y = np.asarray(y)
        rows = self._read(encoder, X)
        if len(rows) != len(y):
            raise ArgumentError("y", f"{len(y)} targets", f"there are {len(rows)} rows")
        return self._enough(rows, table, groups), y

    def _checked_rows(self, X: Any, groups: Any = None) -> Given:
        """Raw rows without targets, looked over, enough of them, and a delta that suits them."""
        self._check_budget()
        encoder = self._encoder()
        if encoder is None:
            rows = self._looked_over(validate_data(self, X, dtype=np.float32, ensure_min_samples=1))
            return self._enough(rows, X, groups)
        return self._enough(self._read(encoder, X), X, groups)

    def _looked_over(self, X: Array) -> Tensor:
        self._front(X.shape[1])  # a bad range is said before anything else
        return _tensor(X)

    def _read(self, encoder: TableEncoder, X: Any) -> Tensor:
        rows = encoder.codes(X)
        self.n_features_in_, self.feature_names_in_ = encoder.n_features_in_, encoder.feature_names_in_
        return rows

    def _enough(self, rows: Tensor, table: Any, groups: Any) -> Given:
        if len(rows) < 2:
            raise ArgumentError("X", f"n_samples={len(rows)}", "give at least 2 rows; a guarantee needs a crowd")
        given = Given(rows, self._persons(table, groups, len(rows)))
        if given.n < 2:
            raise ArgumentError("groups", f"{given.n} person", "give rows of at least 2; a guarantee needs a crowd")
        self._delta(given.n)
        return given

    def _persons(self, table: Any, groups: Any, rows: int) -> Persons | None:
        """Whose the rows are; None where every row is a person of its own, as far as anyone said."""
        integer("max_rows", self.max_rows, f"give the rows of a person in a step, 1 to {MOST}", low=1, high=MOST)
        if groups is None:
            if math.isfinite(self.epsilon):
                warn_of_ids(table)
            return None
        if isinstance(groups, str):
            persons = Persons.of(self._ids(table, groups), self.max_rows, groups)
        else:
            persons = Persons.of(groups, self.max_rows)
        if persons.rows != rows:
            raise ArgumentError("groups", f"{persons.rows} ids", f"there are {rows} rows: give one for each")
        return persons

    def _ids(self, table: Any, name: str) -> Array:
        """The column of a table that says whose a row is."""
        encoder = self._encoder()
        if encoder is None:
            raise ArgumentError("groups", name, "give the ids themselves (a name needs a schema), and no column of X")
        if name in encoder.schema.columns:
            raise ArgumentError("groups", name, "the schema has it for a model to see: take it out there")
        return cells(table, [name])[name]

    def _raw(self, X: Any) -> Tensor:
        encoder = self._encoder()
        if encoder is None:
            return _tensor(validate_data(self, X, dtype=np.float32, reset=False))
        return encoder.codes(X)

    def _inputs(self, X: Any) -> Tensor:
        """The network's inputs for rows, for a metric on public ones."""
        rows = self._raw(X)
        front = self._front(rows.shape[1])
        return rows if front is None else front(rows).float()

    def _front(self, width: int) -> Front | None:
        if self.schema is not None:
            return self._encoder()
        if self.feature_range is None:
            return None
        fix = "give public, finite bounds with low < high"
        try:
            if not isinstance(self.feature_range, tuple | list | np.ndarray):
                raise TypeError
            low, high = (np.asarray(end, dtype=np.float64) for end in self.feature_range)
        except (TypeError, ValueError):
            raise ArgumentError("feature_range", self.feature_range, f"{fix}: (low, high)") from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ArgumentError("feature_range", self.feature_range, fix)
        if any(end.shape not in ((), (width,)) for end in (low, high)):
            raise ArgumentError("feature_range", self.feature_range, f"give two numbers, or {width} a side")
        return ToRange(torch.from_numpy(np.array(low)), torch.from_numpy(np.array(high)))


def _tensor(X: Array) -> Tensor:
    return torch.from_numpy(np.require(X, requirements=["C", "W"]))  # a copy only where it must be


def _target_of(schema: Schema, table: Any) -> Array:
    """The column of a table that the schema calls its target."""
    if schema.target is None:
        raise ArgumentError("y", None, "the schema names no target: give y, or a schema with one")
    return cells(table, [schema.target])[schema.target]
