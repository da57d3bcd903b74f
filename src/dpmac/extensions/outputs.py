"""What a fitted model's outputs were made by, known again when they come back as rows of another fit.

Codes of a private PCA are a plain array: it can carry no :class:`Origin`. So the process remembers the outputs that it
has handed out, in memory only: of each column 256 keyed hashes of its values, and a keyed digest of the order
of its first values. Columns are compared one by one. Values are known again in copies, slices, other orders of the rows
or columns, beside other columns, and in single precision; the order also after each column was scaled or shifted.

The values that are remembered are those with the smallest hashes, so any part of a column has its share of them. Round
numbers (a few leading bits) and NaN are left out, since any table may have them.
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
_KEPT = 256  # values of a column
_OUTPUTS = 16  # that are remembered
_ORDERED = 512  # values of a column whose order is compared
_LEAST = 16  # values at least, for their order to say anything
_FEW = 8  # values in common that make two columns one; of fewer, half of them, but never less than _FEWEST
_FEWEST = 3
_SHARE = 0.05  # of the values that would be in common if one were part of the other; by chance 1 in 4,000 are
_LOOKED_AT = 500_000  # cells of a table that are compared
_ROUND = np.uint32(0xFF)  # the last bits of a single-precision number, zero if it is round


@dataclass(frozen=True, eq=False)
class _Output:
    """What is remembered of an array: for each column sorted hashes, and the digests of all columns' orders."""

    origin: Origin
    samples: tuple[Array, ...]
    orders: frozenset[bytes]


_remembered: list[_Output] = []  # the latest last


def forget() -> None:
    """Forget all outputs that this process has handed out."""
    _remembered.clear()


def remember(values: Array, origin: Origin) -> None:
    """``values``, one or more for each row, were made by something with this origin."""
    if origin == PUBLIC or not len(values):
        return
    table = _table(values[:_ROWS])[:, :_COLUMNS]
    samples, orders = tuple(_smallest(column) for column in _hashes(table).T), frozenset(_orders(table))
    others = [one for one in _remembered if one.origin != origin or one.orders != orders or not orders]
    _remembered[:] = [*others, _Output(origin, samples, orders)][-_OUTPUTS:]


def maker_of(rows: Array) -> Origin:
    """What has made any column of ``rows``, as far as this process knows; PUBLIC if nothing is recognised."""
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
    """Whether some column is, or has a part, of some column of the output."""
    return any(_are_one(column, sample) for column in columns for sample in output.samples)


def _are_one(column: Array, sample: Array) -> bool:
    """Whether a column, by its sorted hashes, shares enough with a remembered one."""
    if len(sample) == _KEPT:  # larger hashes than its last were not kept
        column = column[: np.searchsorted(column, sample[-1], side="right")]
    common = int(_among(column, sample).sum())
    enough = max(_FEWEST, min(_FEW, -(-min(len(column), len(sample)) // 2)))
    return common >= enough and common >= _SHARE * len(column)


def _among(hashes: Array, known: Array) -> Array:
    """Which of ``hashes`` are among ``known``, which are sorted."""
    if not len(known):
        return np.zeros(hashes.shape, dtype=bool)
    return np.asarray(known[np.searchsorted(known, hashes).clip(max=len(known) - 1)] == hashes)


def _smallest(hashes: Array) -> Array:
    """The smallest _KEPT of a column's different hashes, sorted."""
    some = hashes[hashes > 0]
    most = 4 * _KEPT  # enough different ones, unless values come up often: then fewer are kept
    return np.unique(some if len(some) <= most else np.partition(some, most)[:most])[:_KEPT]


def _table(values: Array) -> Array:
    return np.asarray(values, dtype=np.float32).reshape(len(values), -1)


def _hashes(table: Array) -> Array:
    """Keyed hashes of single-precision numbers; 0 for those that are not finite, or round."""
    bits = np.ascontiguousarray(table).view(np.uint32)
    mixed = bits.astype(np.uint64) ^ _keys()[0]
    for key in _keys()[1:]:  # products with odd numbers modulo 2^64, and the upper half brought down between them
        mixed *= key | np.uint64(1)
        mixed ^= mixed >> np.uint64(32)
    return np.where(np.isfinite(table) & ((bits & _ROUND) != 0), mixed, np.uint64(0))


def _orders(table: Array) -> Iterator[bytes]:
    """A digest of the order of every column's first values, and of the reverse; none of columns that tell nothing.

    Those are sorted already, or have mostly equal values.
    """
    first = table[:_ORDERED]
    if len(first) < _LEAST:
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
    """Of this process alone: a hash that someone finds in its memory does not say what it was of."""
    return np.frombuffer(SystemNoise().uniform(4).numpy().tobytes(), dtype=np.uint64).copy()
