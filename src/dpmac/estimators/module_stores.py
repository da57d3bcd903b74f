"""Rows of a dataset that stay where they are: fetched by their numbers when a sample needs them.

What is fetched during a training is private, and so is whether anything was wrong with it: a row that has another
shape than the first one, a number that is not finite or a target that there is not, is handed on as zeros with NaN as
its target. Its loss is then NaN, and it counts as blank. (An error that the dataset itself raises stops the run.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.estimators.module_columns import Kind, blank_of, column_of, kind_of
from dpmac.kernels.gathering import Columns

Encode = Callable[[Sequence[Any]], Tensor]  # raw targets -> (rows, units), NaN in a row whose target is none
_FEW = 256  # rows by which a dataset is recognised


class Source(Protocol):
    """A dataset: raw inputs and targets of some rows."""

    def __len__(self) -> int: ...

    def read(self, rows: Sequence[int]) -> tuple[list[Sequence[Any]], Sequence[Any] | None]:
        """For every input its values in these rows; and the targets, if they are in the dataset."""


@dataclass(frozen=True, eq=False)
class Table:
    """What ``dataset[[0, 5, 7]]`` gives as a dictionary of lists, as a Hugging Face dataset does."""

    dataset: Any
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, rows: Sequence[int]) -> tuple[list[Sequence[Any]], None]:
        found = self.dataset[list(rows)]
        return [found[name] for name in self.names], None


@dataclass(frozen=True, eq=False)
class Items:
    """A map-style torch dataset: ``dataset[5]`` is one row, alone or with its target.

    ``target`` is the key of it in an item that is a dictionary, "" for the second of a pair, None for none.
    """

    dataset: Any
    names: tuple[str, ...] | None
    target: str | None

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, rows: Sequence[int]) -> tuple[list[Sequence[Any]], Sequence[Any] | None]:
        pairs = [parts_of(self.dataset[row], self.target) for row in rows]
        inputs = [self._inputs(one) for one, _ in pairs]
        columns: list[Sequence[Any]] = [list(column) for column in zip(*inputs, strict=True)]
        if self.target is None:
            return columns, None
        return columns, [target for _, target in pairs]

    def _inputs(self, item: Any) -> Sequence[Any]:
        if self.names is not None:
            return [item[name] for name in self.names]
        if isinstance(item, tuple | list):
            return item
        return [item]


def parts_of(item: Any, target: str | None) -> tuple[Any, Any]:
    """An item of a dataset as its inputs and its target."""
    if target is None:
        return item, None
    if target:
        return {name: value for name, value in item.items() if name != target}, item[target]
    inputs, label = item
    return inputs, label


@dataclass(frozen=True, eq=False)
class DatasetStore:
    """A :class:`~dpmac.extensions.stores.Store` of the inputs and targets of a dataset.

    Targets are ``given``, (rows, units), or those of the dataset as ``encode`` makes them.
    """

    source: Source
    kinds: tuple[Kind, ...]
    units: int
    given: Tensor | None = None
    encode: Encode | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def blank(self) -> Columns:
        return (*blank_of(self.kinds), torch.zeros(0, self.units))

    def fetch(self, rows: Tensor) -> Columns:
        wanted = [int(row) for row in rows.tolist()]
        if not wanted:
            return self.blank
        columns, labels = self.source.read(wanted)
        bad = torch.zeros(len(wanted), dtype=torch.bool)
        made = [_filled(values, kind, bad) for values, kind in zip(columns, self.kinds, strict=True)]
        if self.given is not None:
            targets = self.given[rows].clone()
        else:
            assert self.encode is not None
            assert labels is not None
            targets = self.encode(labels)
        targets[bad] = torch.nan
        return (*made, targets)

    def few(self) -> Tensor:
        """Some rows by which the table is recognised, all inputs side by side, (rows, numbers)."""
        places = torch.linspace(0, len(self) - 1, min(len(self), _FEW), dtype=torch.float64).long()
        columns = self.fetch(places)[:-1]
        return torch.cat([column.reshape(len(column), -1).float() for column in columns], dim=1)


def kinds_of(source: Source, names: Sequence[str] | None) -> tuple[Kind, ...]:
    """The public shapes and types of a dataset's inputs: those of its first row."""
    columns, _ = source.read([0])
    known: Sequence[str | None] = [None] * len(columns)
    if names is not None:
        known = names
    return tuple(kind_of(name, column_of(name or "X", values)) for name, values in zip(known, columns, strict=True))


def _filled(values: Sequence[Any], kind: Kind, bad: Tensor) -> Tensor:
    """A column of these values; rows that are not of the kind are zeros, and noted in ``bad``."""
    (whole,) = blank_of([kind], len(values))
    try:
        found = column_of("X", values)
        if found.shape == whole.shape and kind_of(kind[0], found) == kind:
            wrong = ~torch.isfinite(found.reshape(len(found), -1)).all(dim=1)
            bad |= wrong
            return found.masked_fill(wrong.reshape(-1, *[1] * (found.dim() - 1)), 0)
    except ArgumentError:
        pass
    for row, value in enumerate(values):  # one after the other: some are not alike
        bad[row] |= not _put(whole[row : row + 1], value, kind)
    return whole


def _put(place: Tensor, value: Any, kind: Kind) -> bool:
    """Write one row's value, if it is of the kind; whole numbers may stand for others."""
    try:
        found = column_of("X", [value])
    except ArgumentError:
        return False
    fits = found.shape == place.shape and (kind[2] == "float" or not found.dtype.is_floating_point)
    if not fits or not bool(torch.isfinite(found).all()):
        return False
    place.copy_(found)
    return True


def is_table(X: Any) -> bool:
    """Whether ``X`` is what Hugging Face's datasets are: columns by name, rows by a list of numbers."""
    if isinstance(X, Mapping) or not hasattr(X, "column_names") or not hasattr(X, "__getitem__"):
        return False
    try:
        return hasattr(X, "__len__") and isinstance(X[[0]], Mapping)
    except (TypeError, LookupError):  # an Arrow table, or no rows
        return False
