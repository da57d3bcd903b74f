"""A fitted estimator and a private table, as a release of scores needs them: encoded rows, targets, outputs, budget."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.estimators.base import TrainedEstimator
from dpmac.estimators.given import Given, Stored
from dpmac.estimators.held_out import outputs_of
from dpmac.estimators.images import DPMACImageClassifier
from dpmac.estimators.labelled import Labelled
from dpmac.estimators.module_base import ModuleEstimator
from dpmac.estimators.ranged import Ranged
from dpmac.evaluation.classes import Classes
from dpmac.evaluation.numbers import Numbers
from dpmac.extensions.stores import Store
from dpmac.kernels.gathering import Columns
from dpmac.methods.one_release import Outputs
from dpmac.nets import LOSSES
from dpmac.planning.plan import check_delta
from dpmac.privacy import Ledger, PrivateRows
from dpmac.tables import Schema

_MODELS = "give a fitted classifier or regressor of dpmac"


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of which rows. ``positive`` names the positive one of two classes."""

    kind: Classes | Numbers
    rows: PrivateRows
    n: int
    unit: str
    positive: str
    outputs: Outputs

    @classmethod
    def of(cls, model: Any, X: Any, y: Any = None, groups: Any = None, by: Sequence[str] = ()) -> Asked:
        """Every cell and label is looked at, and nothing is spent. ``by`` are columns of categories in the schema."""
        if not isinstance(model, TrainedEstimator) or not isinstance(model, Labelled | Ranged):
            raise ArgumentError("model", type(model).__name__, _MODELS)
        check_is_fitted(model, "run_")
        if isinstance(model, Labelled) and model._indicator is not None:
            fix = "private scores are of one label: fit one model a label, with one ledger for all, and score each"
            raise ArgumentError("model", f"{len(model.classes_)} labels a row", fix)
        given, targets = _looked_over(model, X, y, groups)
        places, values = _subgroups(model, by)
        device = next(iter(model.run_.model.parameters())).device
        kind, positive = _kind_of(model, values)
        rows = _table(given, targets, places, list(values.values())).to(device)
        return cls(kind, rows, given.n, given.unit, positive, outputs_of(model))


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


def _looked_over(model: Any, X: Any, y: Any, groups: Any) -> tuple[Given, Tensor]:
    """Rows and targets as the model's own fit would have them; every cell and label was looked at."""
    looking = copy.copy(model)  # what looks over rows sets attributes
    if isinstance(looking, Labelled) and looking.schema is None:
        looking.classes = list(model.classes_)
    if isinstance(looking, ModuleEstimator):
        given, targets, *_ = looking._look_over(X, y, groups, model.inputs_)  # type: ignore[attr-defined]
        return given, targets
    if isinstance(looking, DPMACImageClassifier):
        X, y, groups = looking._to_score(X, y, groups)
    given, targets, *_ = looking._look_over(X, y, groups)
    if getattr(looking, "n_features_in_", None) != getattr(model, "n_features_in_", None):
        raise ArgumentError("X", f"{looking.n_features_in_} columns", f"give {model.n_features_in_}, as to fit")
    return given, targets


def _subgroups(model: Any, by: Sequence[str]) -> tuple[list[int], dict[str, Sequence[str]]]:
    """Where the codes of the subgroups' columns are in a raw row, and their values; "other" is one of them."""
    schema, values, places = _schema_of(model), dict[str, Sequence[str]](), list[int]()
    features = schema.features if schema is not None else {}
    starts = dict(zip(features, accumulate((one.code_width for one in features.values()), initial=0), strict=False))
    for name in [by] if isinstance(by, str) else by:
        column = features.get(name)
        if column is None or column.classes is None:
            fix = "name features of the schema that are categories: their values are public"
            raise ArgumentError("by", name, fix)
        places.append(starts[name])
        values[name] = (*column.classes, "other")
    return places, values


def _table(given: Given, targets: Tensor, places: Sequence[int], values: Sequence[Sequence[str]]) -> PrivateRows:
    """The private table: raw rows, and targets with the codes of subgroups beside them."""
    others = torch.tensor([len(each) - 1.0 for each in values], dtype=torch.float64)
    if isinstance(given.x, Stored):
        store = given.x.store
        if places:
            store = CodesBeside(store, tuple(places), others)
        return replace(given, x=Stored(store, given.x.few)).table()
    columns = [targets.double()]
    if places:
        columns.append(_codes(given.x, places, others))
    return given.table(torch.cat(columns, dim=1))


def _codes(rows: Tensor, places: Sequence[int], others: Tensor) -> Tensor:
    found = rows[:, list(places)].double()
    return torch.where(torch.isfinite(found), found, others)


@dataclass(frozen=True, eq=False)
class CodesBeside:
    """A store of raw rows and targets that has some of the raw rows' codes beside the targets as well; a missing one
    counts as "other"."""

    store: Store
    places: tuple[int, ...]
    others: Tensor

    def __len__(self) -> int:
        return len(self.store)

    @property
    def blank(self) -> Columns:
        return self._with_codes(self.store.blank)

    def fetch(self, rows: Tensor) -> Columns:
        return self._with_codes(self.store.fetch(rows))

    def _with_codes(self, columns: Columns) -> Columns:
        *inputs, targets = columns
        return (*inputs, torch.cat([targets.double(), _codes(inputs[0], self.places, self.others)], dim=1))


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
