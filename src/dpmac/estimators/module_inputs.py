"""What a user hands to an estimator of a module: arrays, dictionaries of them, and datasets; columns or a source."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from dpmac.checks import ArgumentError
from dpmac.estimators.arrays import validate_data
from dpmac.estimators.module_columns import Kind, check_column, column_of, kind_of
from dpmac.estimators.module_stores import Items, Source, Table, is_table, kinds_of

GIVE = "give an array or a tensor (n, ...), a dictionary of them by the names of forward's arguments, or a dataset"


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of a module: columns in memory, or a dataset; ``y`` is what is known of the targets beside them."""

    columns: tuple[Tensor, ...]
    names: tuple[str, ...] | None
    y: Any = None
    source: Source | None = None
    from_source: tuple[Kind, ...] = ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if self.source is not None:
            return self.from_source
        names: Sequence[str | None] = [None] * len(self.columns)
        if self.names is not None:
            names = self.names
        return tuple(kind_of(name, column) for name, column in zip(names, self.columns, strict=True))

    @property
    def has_targets(self) -> bool:
        """Whether the items of a dataset hold their targets."""
        return isinstance(self.source, Items) and self.source.target is not None

    def __len__(self) -> int:
        if self.source is not None:
            return len(self.source)
        return len(self.columns[0])

    def block(self, first: int, last: int) -> tuple[Tensor, ...]:
        """Some neighbouring rows, for a prediction; raises for one that is not as it should be."""
        if self.source is None:
            return tuple(column[first:last] for column in self.columns)
        values, _ = self.source.read(range(first, last))
        found = tuple(column_of(kind[0] or "X", few) for few, kind in zip(values, self.kinds, strict=True))
        for kind, column in zip(self.kinds, found, strict=True):
            check_column(kind[0] or "X", column)
        return found


def read_inputs(estimator: Any, X: Any, y: Any = None, fitted: tuple[Kind, ...] | None = None) -> Inputs:
    """``X`` and ``y`` as inputs of the estimator's module, looked over.

    ``y`` may be the name of a column of ``X``; of a torch dataset without ``y`` the items are pairs. Rows to predict
    come with the kinds of the inputs that the model was ``fitted`` on: what else is there is not looked at.
    """
    known = None
    if fitted is not None:
        known = [name for name, _, _ in fitted if name is not None]
    if isinstance(X, IterableDataset):
        fix = "rows are sampled by their numbers: give a map-style dataset, with __len__ and __getitem__"
        raise ArgumentError("X", type(X).__name__, fix)
    if isinstance(X, Mapping) and not issparse(X):  # one of SciPy's sparse arrays is a dictionary
        return _from_mapping(X, y, known)
    if is_table(X):
        return _from_table(estimator, X, y, known)
    if isinstance(X, Dataset):
        return _from_items(X, y, fitted)
    if isinstance(y, str):
        raise ArgumentError("y", y, "X has no columns by name: give the targets themselves")
    rows = validate_data(estimator, X, reset=fitted is None, dtype="numeric", allow_nd=True, ensure_min_samples=1)
    column = column_of("X", rows)
    check_column("X", column)
    return Inputs((column,), None, y)


def _from_mapping(X: Mapping[str, Any], y: Any, known: list[str] | None) -> Inputs:
    names = [str(name) for name in X]
    if known is not None:
        names = _all_of(known, names)
    if isinstance(y, str):
        if y not in X:
            raise ArgumentError("y", y, f"X has no such column, but {', '.join(names)}")
        names, y = [name for name in names if name != y], X[y]
    if not names:
        raise ArgumentError("X", "an empty dictionary", GIVE)
    columns = [column_of(name, X[name]) for name in names]
    for name, column in zip(names, columns, strict=True):
        if not column.dim():
            raise ArgumentError(name, "one number", "give one value for each row")
        check_column(name, column)
    lengths = {name: len(column) for name, column in zip(names, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        raise ArgumentError("X", f"rows by input: {lengths}", "give as many rows of every input")
    return Inputs(tuple(columns), tuple(names), y)


def _all_of(known: list[str], there: list[str]) -> list[str]:
    """The inputs that a model was fitted on, which must be there."""
    missing = [name for name in known if name not in there]
    if missing or not known:
        fix = f"the model was fitted on {', '.join(known) or 'one array'}: give that"
        raise ArgumentError("X", f"columns {', '.join(there)}", fix)
    return known


def _from_table(estimator: Any, X: Any, y: Any, known: list[str] | None) -> Inputs:
    """Of a dataset with columns by name the inputs are those that ``forward`` takes."""
    columns = [str(name) for name in X.column_names]
    if isinstance(y, str):
        if y not in columns:
            raise ArgumentError("y", y, f"X has no such column, but {', '.join(columns)}")
        columns, y = [name for name in columns if name != y], np.asarray(X[y])
    if known is not None:
        source = Table(X, tuple(_all_of(known, columns)))
        return Inputs((), source.names, y, source, kinds_of(source, source.names))
    taken = arguments_of(estimator.module)
    names = tuple(name for name in columns if taken is None or name in taken)
    if not names:
        fix = f"forward takes none of its columns {columns}: rename them, or forward's arguments ({taken})"
        raise ArgumentError("X", type(X).__name__, fix)
    source = Table(X, names)
    return Inputs((), names, y, source, kinds_of(source, names))


def _from_items(X: Any, y: Any, fitted: tuple[Kind, ...] | None) -> Inputs:
    if not len(X):
        raise ArgumentError("X", "a dataset of 0 rows", "give rows")
    first, target = X[0], None
    if isinstance(y, str):
        if not isinstance(first, Mapping) or y not in first:
            raise ArgumentError("y", y, "the items of the dataset have no such key")
        target, y = y, None
    elif y is None and fitted is None:
        if not isinstance(first, tuple | list) or len(first) != 2:
            fix = "items are (input, target), or dictionaries with y= the key of the target; or give y beside X"
            raise ArgumentError("X", f"items of type {type(first).__name__}", fix)
        target = ""
    elif fitted is not None and _is_pair(first, len(fitted)):
        target = ""  # rows to predict may have their targets with them, which are not looked at
    names = None
    inputs = first
    if target == "":
        inputs = first[0]
    if isinstance(inputs, Mapping):
        names = tuple(str(name) for name in inputs if name != target)
        if fitted is not None:
            names = tuple(_all_of([name for name, _, _ in fitted if name is not None], list(names)))
    source = Items(X, names, target)
    return Inputs((), names, y, source, kinds_of(source, names))


def _is_pair(item: Any, inputs: int) -> bool:
    """Whether an item is (input, target), and not two inputs of a module that has so many."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        return False
    return inputs != 2 or isinstance(item[0], Mapping | tuple | list)


def arguments_of(module: Any) -> list[str] | None:
    """The names of the arguments of a module's ``forward``; None if it takes any."""
    known = inspect.signature(module.forward).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in known):
        return None
    return [one.name for one in known if one.name != "self"]
