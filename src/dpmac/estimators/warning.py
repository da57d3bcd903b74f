"""Warnings to whoever holds the data: fits that add up without anyone counting, and rows that plainly need a range.

Both look at rows, and neither goes into a model, a ledger or a file: what they say is shown to the one who has the rows
anyway. To notice that rows were fitted before, a process remembers a few thousand keyed hashes of rows for each table,
in memory only; the key is drawn afresh by each process. Folds of a cross-validation overlap, so they are one table.
Two tables whose rows can hardly be told apart (a handful of categories) count as one, too.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import multiprocessing
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import PrivacyWarning
from dpmac.estimators.given import Given
from dpmac.privacy import Ledger
from dpmac.privacy.statement import noun
from dpmac.randomness import SystemNoise
from dpmac.tables import TableEncoder
from dpmac.tables.crowding import CrowdedWarning, crowding

Array = np.ndarray[Any, Any]
LARGE = 20.0  # a column's root mean square: scaled columns have about 1, ages 50, pixels 100
_HASHES = 2048  # of rows, for each table
_TABLES = 32  # that are remembered
_FEW = 8  # rows in common that make two tables one
_LOOKED_AT = 4_000_000  # numbers at most that choose which rows are hashed
_CELLS = 512  # of a row, that are hashed
_SCALED = 1_000_000  # numbers that are asked for their scale


@dataclass
class _Table:
    """Rows that this process has fitted: hashes, and the number of private fits."""

    hashes: Array
    fits: int


_remembered: list[_Table] = []  # the latest last
_INSIDE = ("dpmac", "contextlib")


def outside() -> int:
    """The ``stacklevel`` of a warning that is to name the line which called this package; for its direct caller."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    return level


def forget() -> None:
    """Forget all tables that this process has fitted."""
    _remembered.clear()


@contextmanager
def counted(x: Tensor, epsilon: float, ledger: Ledger, shared: bool) -> Iterator[None]:
    """Around a fit that releases into ``ledger``: warns before anything is spent, and remembers what was.

    ``shared`` is whether the user gave the ledger: then it counts, and there is nothing to warn of. A fit that released
    nothing (an error before the first step, or no privacy at all) is not remembered.
    """
    if not math.isfinite(epsilon):
        yield
        return
    hashes, before = _hashes(_array(x)), len(ledger)
    if not shared:
        _warn_of_repeats(_known(hashes))
    try:
        yield
    finally:
        if len(ledger) > before:
            _remember(hashes)


@contextmanager
def counted_as_one() -> Iterator[None]:
    """Inside, all fits of the same rows are remembered as one: how many a search makes is its secret."""
    before = list(_remembered)
    try:
        yield
    finally:
        made = [table for table in _remembered if all(table is not one for one in before)]
        _remembered[:] = before
        for table in made:
            _remember(table.hashes)


class Few:
    """The rows of a long table by which it is recognised: shown ``n`` rows block after block, it keeps a few."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._kept: Array | None = None

    def add(self, rows: Array) -> None:
        """The next rows, (rows, cells)."""
        if self._kept is not None:
            rows = np.concatenate([self._kept, rows])
        self._kept = _first(rows, self._n).copy()

    def rows(self) -> Tensor:
        """Those that :func:`counted` would choose of all."""
        assert self._kept is not None
        return torch.from_numpy(self._kept)


def warn_of_scales(x: Tensor) -> None:
    """Warn where some column of raw rows is plainly not scaled and no public feature map scales it."""
    rows = _array(x)
    few = rows[:: max(1, math.ceil(rows.size / _SCALED))].astype(np.float64)
    sizes = np.sqrt(np.mean(np.square(few), axis=0))
    if few.size and sizes.max() > LARGE:
        worst = int(sizes.argmax())
        text = (
            f"column {worst} of X is not scaled: its values are about {sizes[worst]:.2g} in size, and most of what "
            "such rows could teach is clipped away. Scale by public constants, never by the rows' own statistics: give "
            "feature_range=(low, high), numbers or one per column, or a schema="
        )
        warnings.warn(text, PrivacyWarning, stacklevel=outside())


def warn_of_values(encoder: TableEncoder | None, given: Given, epsilon: float, leads: bool) -> None:
    """Warn of categories with more values than so few rows can teach at so small an epsilon. All of it is public."""
    if encoder is None or not leads or not math.isfinite(epsilon):
        return
    text = crowding(encoder.schema, given.n, epsilon, noun(given.unit))
    if text is not None:
        warnings.warn(text, CrowdedWarning, stacklevel=outside())


def _warn_of_repeats(known: list[_Table]) -> None:
    """At the second fit, the fourth, the eighth ...: a search over a hundred settings prints no hundred lines."""
    fix = "Give every fit the same ledger (ledger = dpmac.Ledger(); or its path), and the statement counts them all"
    fits = 1 + sum(table.fits for table in known)
    if fits > 1 and fits & (fits - 1) == 0:
        text = (
            f"this process has fitted these rows before, or some of them: with this fit {fits} times. Each fit spends, "
            f"and what they spend adds up, while each statement tells of one only. {fix}"
        )
        warnings.warn(text, PrivacyWarning, stacklevel=outside())
    elif fits == 1 and _in_a_worker():
        text = (
            "this private fit runs in a worker process without a ledger: what other workers spend on the same rows is "
            f"not seen here, and it adds up. {fix} (with n_jobs=1: a ledger has one writer)"
        )
        warnings.warn(text, PrivacyWarning, stacklevel=outside())


def _in_a_worker() -> bool:
    """Whether joblib has started this process: cross-validations and searches with ``n_jobs`` run there."""
    return multiprocessing.current_process().name.startswith("LokyProcess")


def _known(hashes: Array) -> list[_Table]:
    """The tables that share rows with these: a few, or half of the fewer where there are hardly any."""
    found = []
    for table in _remembered:
        enough = min(_FEW, math.ceil(min(len(hashes), len(table.hashes)) / 2))
        places = np.searchsorted(table.hashes, hashes).clip(max=len(table.hashes) - 1)  # both are sorted
        if (table.hashes[places] == hashes).sum() >= max(enough, 1):
            found.append(table)
    return found


def _remember(hashes: Array) -> None:
    """One more fit of these rows; tables that they join become one."""
    same = _known(hashes)
    whole = np.unique(np.concatenate([hashes, *(table.hashes for table in same)]))[: 2 * _HASHES]
    kept = [table for table in _remembered if all(table is not one for one in same)]
    _remembered[:] = [*kept, _Table(whole, 1 + sum(table.fits for table in same))][-_TABLES:]


def _hashes(rows: Array) -> Array:
    """Sorted keyed hashes of up to _HASHES rows, chosen by what they hold and not by where they stand.

    So that the folds of a table choose mostly the same: the rows that come first along one fixed direction.
    """
    rows = _first(rows, len(rows))
    chosen = np.ascontiguousarray(_middle(rows, _CELLS))
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8, key=_key()).digest() for row in chosen]
    return np.unique(np.frombuffer(b"".join(digests), dtype=np.uint64))


def _first(rows: Array, n: int) -> Array:
    """The _HASHES rows, of a table of ``n``, that come first along one fixed direction; all, if there are no more."""
    if len(rows) <= _HASHES:
        return rows
    width = min(rows.shape[1], max(1, _LOOKED_AT // n))
    block, direction = _middle(rows, width), np.cos(np.arange(width, dtype=rows.dtype) + 1)
    along = block @ direction
    bad = ~np.isfinite(along)  # codes of a table have NaN where a cell is missing
    along[bad] = np.nan_to_num(block[bad]) @ direction
    return rows[np.argpartition(along, _HASHES)[:_HASHES]]


def _middle(rows: Array, width: int) -> Array:
    """``width`` neighbouring columns from the middle: the margins of images are all alike."""
    first = max(0, (rows.shape[1] - width) // 2)
    return rows[:, first : first + width]


@cache
def _key() -> bytes:
    """Of this process alone: a hash that someone finds in its memory does not say which row it was of."""
    return SystemNoise().uniform(8).numpy().tobytes()


def _array(x: Tensor) -> Array:
    return np.asarray(x.detach().flatten(1).cpu().numpy())
