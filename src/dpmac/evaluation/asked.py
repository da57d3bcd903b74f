"""A fitted estimator and a private table, as a release of scores needs them: encoded rows, targets, outputs, budget."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.estimators.base import PrivateEstimator
from dpmac.estimators.labelled import Labelled
from dpmac.estimators.ranged import Ranged
from dpmac.evaluation.classes import Classes
from dpmac.evaluation.numbers import Numbers
from dpmac.nets import LOSSES
from dpmac.planning.plan import check_delta
from dpmac.privacy import Ledger, PrivateRows
from dpmac.tables import Schema
from dpmac.tables.frames import cells

_MODELS = "give a fitted DPMACClassifier or DPMACRegressor (of one label a row)"


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of which rows. ``positive`` names the positive one of two classes."""

    kind: Classes | Numbers
    rows: PrivateRows
    n: int
    unit: str
    positive: str

    @classmethod
    def of(cls, model: Any, X: Any, y: Any = None, groups: Any = None, by: Sequence[str] = ()) -> Asked:
        """Every cell and label is looked at, and nothing is spent. ``by`` are columns of categories in the schema."""
        if not isinstance(model, PrivateEstimator) or not isinstance(model, Labelled | Ranged):
            raise ArgumentError("model", type(model).__name__, _MODELS)
        check_is_fitted(model, "run_")
        if isinstance(model, Labelled) and model._indicator is not None:
            raise ArgumentError("model", "several labels a row", _MODELS)
        looking = copy.copy(model)  # what looks over rows sets attributes
        if isinstance(looking, Labelled) and looking.schema is None:
            looking.classes = list(model.classes_)
        given, targets, *_ = looking._look_over(X, y, groups)
        if targets is None:
            raise ArgumentError("X", type(X).__name__, "give a table in memory")
        if getattr(looking, "n_features_in_", None) != getattr(model, "n_features_in_", None):
            raise ArgumentError("X", f"{looking.n_features_in_} columns", f"give {model.n_features_in_}, as to fit")
        codes, values = _subgroups(looking, X, by, len(targets))
        device = next(iter(model.run_.model.parameters())).device
        rows = given.table(torch.cat([targets.double(), codes], dim=1)).to(device)
        kind, positive = _kind_of(model, values)
        return cls(kind, rows, given.n, given.unit, positive)


def _kind_of(model: Any, values: Mapping[str, Sequence[str]]) -> tuple[Classes | Numbers, str]:
    if isinstance(model, Ranged):
        low, high = model.target_range_
        known = model.residual_std_
        if known is not None:
            known = 2.0 * known / (high - low)
        return Numbers(low, high, known, values), ""
    place, positive, names = None, "", [str(one) for one in model.classes_]
    if len(names) == 2:
        place = 1
        schema = _schema_of(model)
        if schema is not None and schema.positive is not None and schema.positive in names:
            place = names.index(schema.positive)
        positive = names[place]
    return Classes(LOSSES[model._loss_name].predict, len(names), place, values), positive


def _subgroups(model: Any, X: Any, by: Sequence[str], rows: int) -> tuple[Tensor, dict[str, Sequence[str]]]:
    """The codes of the subgroups' columns (rows, columns), and their values; "other" is one of them."""
    schema, values, codes = _schema_of(model), dict[str, Sequence[str]](), list[Tensor]()
    for name in [by] if isinstance(by, str) else by:
        column = schema.columns.get(name) if schema is not None else None
        if schema is None or column is None or column.classes is None:
            raise ArgumentError("by", name, "name columns of the schema that are categories: their values are public")
        found = column.coded(name, schema.cells.read(column, cells(X, [name])[name]))
        codes.append(torch.from_numpy(found).nan_to_num(nan=float(len(column.classes))))
        values[name] = (*column.classes, "other")
    if not codes:
        return torch.zeros(rows, 0, dtype=torch.float64), values
    return torch.stack(codes, dim=1), values


def _schema_of(model: Any) -> Schema | None:
    if model.schema is None or isinstance(model.schema, Schema):
        return model.schema
    return Schema.from_dict(model.schema)


def book_for(model: Any, ledger: Ledger | str | Path | None) -> Ledger:
    """The ledger of the rows: the given one, or that of the model, which holds what the training has spent."""
    if ledger is not None:
        return Ledger.at(ledger)
    book: Ledger = model.privacy_.ledger
    if book._copied:
        fix = "the model's own is a copy: give the ledger that it was trained with, which holds what these rows spent"
        raise ArgumentError("ledger", None, fix)
    return book


def delta_for(model: Any, book: Ledger, delta: float | None, n: int) -> float:
    """The delta that was asked for, or the account's, or the model's own."""
    if delta is None and book.account is not None:
        delta = book.account.delta
    elif delta is None:
        delta = float(model.privacy_.delta)
    check_delta(delta, n)
    return float(delta)


def epsilon_from(epsilon: float) -> float:
    fix = "give what the evaluation may cost, a number above 0; 0.5 and 1 are usual"
    found = number("epsilon", epsilon, fix, low=0.0, high=1e3, strict=True)
    if not math.isfinite(found):
        raise ArgumentError("epsilon", epsilon, fix)
    return found
