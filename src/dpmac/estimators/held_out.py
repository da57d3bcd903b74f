"""Rows that a search scores its candidates on: held out at random places, or given; and a model's outputs for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils import _safe_indexing
from torch import Tensor

from dpmac.cells import flat
from dpmac.checks import ArgumentError
from dpmac.estimators.base import TrainedEstimator
from dpmac.estimators.given import Given
from dpmac.estimators.images import DPMACImageClassifier
from dpmac.estimators.labelled import Labelled, affine
from dpmac.estimators.labels import looked_over
from dpmac.estimators.module_base import ModuleEstimator
from dpmac.estimators.ranged import unit_targets
from dpmac.estimators.rows import Array
from dpmac.estimators.target_cells import target_of
from dpmac.extensions.persons import same_id
from dpmac.extensions.splits import IDS
from dpmac.methods.one_release import Outputs
from dpmac.privacy import Persons, PrivateRows
from dpmac.randomness import NoiseSource, shuffled
from dpmac.tables.frames import cells
from dpmac.tables.stored import MEMORY

FEWEST = 20  # places to score on: of fewer, a score says nothing


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with targets (None: in the table), and whose they are."""

    X: Any
    y: Any = None
    groups: Any = None

    def __len__(self) -> int:
        if isinstance(self.X, Mapping):
            return len(next(iter(self.X.values()))) if self.X else 0
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)

    @property
    def places(self) -> int:
        """How many rows there are or, with ids, persons."""
        if self.groups is None:
            return len(self)
        return len(Persons.of(self.groups))

    def at(self, places: Array) -> Rows:
        """Some of them, in order."""
        return Rows(*(None if part is None else _taken(part, places) for part in (self.X, self.y, self.groups)))

    def with_ids(self, estimator: Any) -> Rows:
        """The same with ``groups`` as ids, where it is the name of a column."""
        if not isinstance(self.groups, str):
            return self
        if getattr(estimator, "schema", None) is not None:
            return Rows(self.X, self.y, estimator._ids(self.X, self.groups))
        try:
            return Rows(self.X, self.y, np.asarray(cells(self.X, [self.groups])[self.groups]))
        except (KeyError, TypeError, ValueError, IndexError):
            raise ArgumentError("groups", self.groups, "X has no such column: give an id for each row") from None


def split(rows: Rows, part: float, source: NoiseSource) -> tuple[Rows, Rows]:
    """Two lots of whole places, drawn without looking at any: the second one is a ``part`` of them.

    A place is a row or, with ids, a person as the training tells them apart: who was split between the two lots would
    have to pay for both. The number of a place decides, and not what its rows hold.
    """
    count = rows.places
    away = max(1, math.floor(part * count))
    held = np.zeros(count, dtype=bool)
    held[shuffled(count, source)[:away].numpy()] = True
    if rows.groups is not None:
        held = held[Persons.of(rows.groups).of_rows().numpy()]
    return rows.at(np.flatnonzero(~held)), rows.at(np.flatnonzero(held))


def check_apart(rows: Rows, others: Rows) -> None:
    """Raise if somebody has rows in both lots: the cost of one of the two would not cover them.

    One lot may have been read as text and the other as numbers, so 7, 7.0 and "7" are one person here.
    """
    if (rows.groups is None) != (others.groups is None):
        raise ArgumentError("held_out", "rows", "give ids for both lots of rows, as (X, y, groups), or for neither")
    if rows.groups is not None:
        here, there = ({same_id(one) for one in flat(lot.groups, "groups", IDS)} for lot in (rows, others))
        if both := here & there:
            fix = "a person is either trained on or scored on: put all rows of each on one side"
            raise ArgumentError("held_out", f"{len(both)} persons who are in X, too", fix)


# --- targets and outputs ----------------------------------------------------------------------------------------------


def targets_for(model: Any, rows: Rows) -> Tensor:
    """Targets (rows, units) as ``model``, which need not be fitted but must know its classes, is trained on."""
    y = rows.y
    if y is None:
        if getattr(model, "schema", None) is None:
            raise ArgumentError("y", None, "give a target for each row, or a schema whose target is in the table")
        y = target_of(model._encoder().schema, rows.X)
    if isinstance(model, Labelled):
        labels = looked_over(y)
        if labels.ndim == 2:
            raise ArgumentError("y", f"shape {labels.shape}", "a search is for one label a row, not for several")
        _, found = model._single(labels)
        return found
    low, high = model._range()
    return torch.from_numpy(unit_targets(model._numbers(y), low, high))


def table_for(model: TrainedEstimator, rows: Rows) -> tuple[PrivateRows, Outputs]:
    """The private table of inputs and targets, and the fitted model's outputs for a block of it."""
    targets = targets_for(model, rows)
    if isinstance(model, ModuleEstimator):
        first, *more = model._raw(rows.X)
        persons = model._persons(rows.X, rows.groups, len(first), None)
        return Given(first, persons, more=tuple(more)).table(targets), _of_module(model)
    raw = model._raw(rows.X)
    given = Given(raw, model._persons(rows.X, rows.groups, len(raw), None))
    table, outputs = model._for_releases(given.table(targets), ())
    return table.behind(outputs, memory=MEMORY), _as_it_is


def outputs_of(model: TrainedEstimator) -> Outputs:
    """A fitted model's outputs for a block of raw rows, as they are in a release: calibrated."""
    if isinstance(model, ModuleEstimator):
        return _of_module(model)
    return model.run_.outputs


def _as_it_is(outputs: Tensor) -> Tensor:
    return outputs


def _of_module(model: Any) -> Outputs:
    """The module's outputs, calibrated."""
    plain, calibration = model._private_outputs(), getattr(model, "calibration_", None)
    if calibration is None:
        return plain  # type: ignore[no-any-return]
    slope, offsets = affine(calibration, model._units(), several=False)

    def calibrated(*columns: Tensor) -> Tensor:
        u: Tensor = plain(*columns).double()
        return slope * u + offsets.to(u.device)

    return calibrated


def pictures_as_arrays(estimator: Any, rows: Rows) -> Rows:
    """Refuse pictures that lie in files: which of them are held out is decided here."""
    if isinstance(estimator, DPMACImageClassifier) and not hasattr(rows.X, "shape"):
        raise ArgumentError(
            "X", type(rows.X).__name__, "give pictures as an array: dpmac.pictures.read_folder reads them"
        )
    return rows


def _taken(part: Any, places: Array) -> Any:
    if isinstance(part, Mapping):
        return {name: _taken(column, places) for name, column in part.items()}
    if isinstance(part, Tensor):
        return part[torch.from_numpy(places).to(part.device)]
    return _safe_indexing(part, places)
