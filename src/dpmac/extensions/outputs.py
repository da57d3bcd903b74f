"""Recognise the outputs of a fitted model when they come back as rows of another fit.

Codes of a private PCA are a plain array, which cannot carry an :class:`Origin`. So the process remembers the outputs
that it has returned, in memory only: for each column, 256 keyed hashes of its values and a keyed digest of the order of
its first values. Columns are compared one by one. Values are recognised in copies, slices, other orders of the rows or
columns, next to other columns, and in single precision; the order also after a column was scaled or shifted.

The remembered values are those with the smallest hashes, so any part of a column contains its share of them. Round
numbers (with few leading bits) and NaN are left out, because any table may contain them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dpmac.extensions.provenance import PUBLIC, Origin
from dpmac.randomness import SystemNoise

Array = np.ndarray[Any, Any]
_ROWS, _COLUMNS = 2**16, 128  # of one output that are remembered
_KEPT = 256  # remembered values of a column
_OUTPUTS = 16  # remembered outputs
_ORDERED = 512  # values of a column whose order is compared
_MIN_ORDERED = 16  # fewer values have too few orders to recognise anything
_FEW = 8  # common values that identify two columns; of fewer values, half of them, but at least _FEWEST
_FEWEST = 3
_SHARE = 0.05  # fraction of the values in common if one is part of the other; by chance it is 1 in 4,000
_LOOKED_AT = 500_000  # cells of a table that are compared
_ROUND = np.uint32(0xFF)  # the last bits of a single-precision number; zero if it is round


@dataclass(frozen=True, eq=False)
class _Output:
    """The record of an array: sorted hashes for each column, and the digests of all columns' orders."""

    origin: Origin
    samples: tuple[Array, ...]
    orders: frozenset[bytes]


_remembered: list[_Output] = []  # newest last


def forget() -> None:
    """Forget all outputs that this process has returned."""
    _remembered.clear()


def remember(values: Array, origin: Origin) -> None:
    """Remember that ``values``, one or more for each row, were computed by something with this origin."""
    if origin == PUBLIC or not len(values):
        return
    table = _table(values[:_ROWS])[:, :_COLUMNS]
    samples, orders = tuple(_smallest(column) for column in _hashes(table).T), frozenset(_orders(table))
    others = [one for one in _remembered if one.origin != origin or one.orders != orders or not orders]
    _remembered[:] = [*others, _Output(origin, samples, orders)][-_OUTPUTS:]


def maker_of(rows: Array) -> Origin:
    """The origin of any column of ``rows``, as far as this process knows; PUBLIC if nothing is recognised."""
    if not _remembered or not rows.size:
        return PUBLIC
    table = _table(rows)
    table = table[: max(_ORDERED, _LOOKED_AT // table.shape[1])]
    columns, orders = _hashes(table), frozenset(_orders(table))
    every = np.unique(np.concatenate([sample for one in _remembered for sample in one.samples]))
    near = np.flatnonzero(_among(columns, every).sum(axis=0) >= _FEWEST)  # most tables have no such column
    found = [np.unique(columns[columns[:, place] > 0, place]) for place in near]
    return Origin.merged(*(one.origin for one in _remembered if orders & one.orders or _shares(found, one)))


def _shares(columns: list[Array], output: _Output) -> bool:
    """Whether some column is, or contains part of, some column of the output."""
    return any(_are_one(column, sample) for column in columns for sample in output.samples)


def _are_one(column: Array, sample: Array) -> bool:
    """Whether a column, given by its sorted hashes, has enough in common with a remembered one."""
    if len(sample) == _KEPT:  # hashes larger than its last were not kept
        column = column[: np.searchsorted(column, sample[-1], side="right")]
    common = int(_among(column, sample).sum())
    enough = max(_FEWEST, min(_FEW, -(-min(len(column), len(sample)) // 2)))
    return common >= enough and common >= _SHARE * len(column)


def _among(hashes: Array, known: Array) -> Array:
    """Which of ``hashes`` are among the sorted ``known``."""
    if not len(known):
        return np.zeros(hashes.shape, dtype=bool)
    return np.asarray(known[np.searchsorted(known, hashes).clip(max=len(known) - 1)] == hashes)


def _smallest(hashes: Array) -> Array:
    """The _KEPT smallest distinct hashes of a column, sorted."""
    some = hashes[hashes > 0]
    most = 4 * _KEPT  # enough distinct ones, unless values are repeated: then fewer are kept
    if len(some) > most:
        some = np.partition(some, most)[:most]
    return np.unique(some)[:_KEPT]


def _table(values: Array) -> Array:
    return np.asarray(values, dtype=np.float32).reshape(len(values), -1)


def _hashes(table: Array) -> Array:
    """Keyed hashes of single-precision numbers; 0 for numbers that are not finite, or round."""
    bits = np.ascontiguousarray(table).view(np.uint32)
    mixed = bits.astype(np.uint64) ^ _keys()[0]
    for key in _keys()[1:]:  # multiply by odd numbers modulo 2^64, and mix the upper half into the lower in between
        mixed *= key | np.uint64(1)
        mixed ^= mixed >> np.uint64(32)
    return np.where(np.isfinite(table) & ((bits & _ROUND) != 0), mixed, np.uint64(0))


def _orders(table: Array) -> Iterator[bytes]:
    """A digest of the order of every column's first values, and of the reverse order.

    Columns that are already sorted, or whose values are mostly equal, have none.
    """
    first = table[:_ORDERED]
    if len(first) < _MIN_ORDERED:
        return
    rising, falling = (np.argsort(side, axis=0, kind="stable").astype(np.uint16) for side in (first, -first))
    same = (np.diff(np.sort(first, axis=0), axis=0) == 0).sum(axis=0)
    place = np.arange(len(first))
    for column in np.flatnonzero(2 * same < len(first)):
        ways = (rising[:, column], falling[:, column])
        if not any((way == place).all() for way in ways):
            key = _keys().tobytes()
            yield from (hashlib.blake2b(way.tobytes(), digest_size=16, key=key).digest() for way in ways)


@cache
def _keys() -> Array:
    """Keys of this process only: a hash found in its memory does not reveal the value."""
    return np.frombuffer(SystemNoise().uniform(4).numpy().tobytes(), dtype=np.uint64).copy()
