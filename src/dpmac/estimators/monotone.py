"""Terms made monotone: the nearest values that never fall (or never rise) along a column.

A projection of released values is post-processing and costs no privacy. Of a column that is in no pair it is isotonic
regression of the term's values at its knots: the nearest in the mean of their squares. With pairs it is the *sum* that
must be monotone for every value of the other column. The column's own term is projected first; where it rises, a pair
may fall as steeply, so the pair's grid is projected onto what is left (shared equally where the column is in several
pairs). If both columns of a pair are to be monotone, both ways in turn (Dykstra), and what is left of a fall is then
filled up, so that the result is monotone up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from dpmac.checks import ArgumentError
from dpmac.tables import Schema, TermEncoder
from dpmac.tables.kinds import Array
from dpmac.tables.terms import Axis, Block
from dpmac.tables.texts import did_you_mean

_ROUNDS = 100  # of the projection both ways


def checked_directions(schema: Schema, given: object) -> dict[str, int]:
    """Columns along which the model is to rise (+1) or fall (-1); :class:`ArgumentError` for what cannot be."""
    if not isinstance(given, Mapping):
        raise ArgumentError("monotone", given, 'give a dict of columns and directions, such as {"age": +1}, or None')
    features = schema.features
    for name, direction in given.items():
        if name not in features:
            hint = did_you_mean(str(name), features)
            raise ArgumentError("monotone", name, f"it is not among the columns {list(features)}{hint}")
        if isinstance(direction, bool) or direction not in (1, -1):
            raise ArgumentError(f"monotone[{name!r}]", direction, "give +1, never falling, or -1, never rising")
        if not features[name].rises:
            why = f"a {features[name].kind} has no order"
            if features[name].ordered:
                why = f"a {features[name].kind} with parts that come back, such as months, has none"
            raise ArgumentError(f"monotone[{name!r}]", direction, f"{why} in which it could rise: leave it out")
    return {name: int(direction) for name, direction in given.items()}


def monotone_values(values: Array, encoder: TermEncoder, directions: Mapping[str, int]) -> Array:
    """The values (outputs, points) of terms that are monotone in these columns; those of other terms as they are."""
    found = values.copy()
    shares: dict[str, int] = {}
    for block in encoder.blocks:
        if len(block.axes) == 1 and block.term in directions and not block.name:
            own = found[:, block.start : block.stop]
            own[:] = [isotonic(row, directions[block.term]) for row in own]
    for name in directions:
        shares[name] = sum(name in pair for pair in encoder.pairs)
    for block in encoder.blocks:
        if len(block.axes) == 2 and any(axis.column in directions for axis in block.axes):
            for row in found:
                grid = row[block.start : block.stop].reshape(block.shape)
                rises = [_allowed(row, axis, encoder, directions, shares) for axis in block.axes]
                row[block.start : block.stop] = _both_ways(grid, block, rises, directions).ravel()
    return found


def isotonic(row: Array, direction: int) -> Array:
    """The nearest numbers that never fall (or never rise): pools of neighbours take their mean."""
    pools: list[tuple[float, int]] = []
    for value in direction * row:
        total, count = float(value), 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:  # its mean is not below this one's
            before, size = pools.pop()
            total, count = total + before, count + size
        pools.append((total, count))
    found = np.concatenate([np.full(count, total / count) for total, count in pools])
    rising: Array = np.maximum.accumulate(found)  # rounding alone
    return direction * rising


def _allowed(
    row: Array, axis: Axis, encoder: TermEncoder, directions: Mapping[str, int], shares: Mapping[str, int]
) -> Array | None:
    """By how much a pair may fall between the knots of an axis, from the first on in sum; None along one that may do
    as it likes."""
    if axis.column not in directions or axis.knots is None:
        return None
    own = next(b for b in encoder.blocks if b.term == axis.column and not b.name)
    fine = own.axes[0].knots
    assert fine is not None
    slopes = directions[axis.column] * np.diff(row[own.start : own.stop]) / np.diff(fine)
    middle = (fine[1:] + fine[:-1]) / 2
    least = [
        slopes[(middle > low) & (middle < high)].min(initial=np.inf) * (high - low)
        for low, high in pairwise(axis.knots)
    ]
    room = np.where(np.isfinite(least), least, 0.0) * (1 - 1e-12) / shares[axis.column]
    return np.concatenate([[0.0], np.cumsum(np.maximum(room, 0.0))])


def _both_ways(grid: Array, block: Block, rises: list[Array | None], directions: Mapping[str, int]) -> Array:
    """The nearest grid that, with what the columns' own terms rise, is monotone along every axis that has to be."""
    signs = [directions.get(axis.column, 0) for axis in block.axes]
    lengths = [axis.listed for axis in block.axes]  # "other" and missing lie on no line
    shift = np.zeros(grid.shape)
    if rises[0] is not None:
        shift[: lengths[0]] += signs[0] * rises[0][:, None]
    if rises[1] is not None:
        shift[:, : lengths[1]] += signs[1] * rises[1]
    wanted = [place for place in (0, 1) if rises[place] is not None]

    def along(place: int, moved: Array) -> Array:
        turned = np.moveaxis(moved, place, 0).copy()
        for column in range(turned.shape[1]):
            line = turned[: lengths[place], column]
            turned[: lengths[place], column] = isotonic(line, signs[place])
        return np.moveaxis(turned, 0, place)

    found = grid + shift
    if len(wanted) == 1:
        return along(wanted[0], found) - shift
    owed = [np.zeros_like(found), np.zeros_like(found)]
    for _ in range(_ROUNDS):
        start = found
        for place in wanted:
            asked = found + owed[place]
            found = along(place, asked)
            owed[place] = asked - found
        if np.abs(found - start).max() < 1e-9:
            break
    for place in wanted:  # filling up along one axis keeps the other monotone
        turned = np.moveaxis(found, place, 0)
        filled = signs[place] * np.maximum.accumulate(signs[place] * turned[: lengths[place]], axis=0)
        turned[: lengths[place]] = filled
    return found - shift
