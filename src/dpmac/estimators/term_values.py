"""From a trained linear layer to the values of terms at their points, and to the deviation of the noise on them.

A layer that is linear in a table's inputs is a sum of functions of the columns, and so is one behind a whitening, which
is linear too: W ((f - c) M) + b = (W M') f + (b - W M' c). At a term's points the inputs of its columns are known, so
its values there are sums of weights; between them it is taken to be linear, which defines the model. (Of a wide number,
which is coded on a logarithmic scale as well, the trained function is bent there, a little.)

Terms are unique only up to constants and, of a pair, functions of one of its columns. So every part of a term has a
mean of 0 over its points, those of "other" and of a missing cell left out; a pair has it along both axes, and what it
lacks is its columns' own. The rest is the intercept. Everything here is linear: what the noise on the weights becomes
follows exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dpmac.nets.feature_maps import Chain, FeatureMap, Joined, Whitening
from dpmac.tables import TermEncoder
from dpmac.tables.kinds import Array
from dpmac.tables.terms import Block

_FLAG = 1  # the input of a missing cell


@dataclass(frozen=True)
class Linear:
    """Rows of numbers, each linear in a term encoder's inputs: values (rows, points), and a constant of each."""

    values: Array
    constant: Array

    def centred(self, encoder: TermEncoder) -> Linear:
        """The same functions with every term's means moved into the columns' own terms, and into the constant."""
        values, constant = self.values.copy(), self.constant.copy()
        places = {(block.term, block.name): block for block in encoder.blocks}
        if encoder.singles:
            for block in encoder.blocks:
                if len(block.axes) > 1:
                    _give_back(values, constant, block, places)
        for block in encoder.blocks:
            listed = block.axes[0].listed
            if len(block.axes) == 1 and listed:
                mean = values[:, block.start : block.start + listed].mean(axis=1)
                values[:, block.start : block.stop] -= mean[:, None]
                constant += mean
                gap = places.get((block.term, "missing"))
                if gap is not None:  # a missing cell has none of the column's other parts
                    values[:, gap.start] -= mean
        return Linear(values, constant)


def trained(weight: Array, bias: Array, feature_map: FeatureMap, encoder: TermEncoder) -> Linear:
    """What a linear layer (outputs, inputs) behind the map that it was trained on is, by its values at the points."""
    table, whitening = _taken_apart(feature_map)
    found, constant = weight, bias
    if whitening is not None:
        found = weight @ whitening.matrix.cpu().numpy().T
        constant = bias - found @ whitening.centre.cpu().numpy()
    return Linear(found @ at_points(table, encoder).T, constant)


def noise_at_points(deviation: Array, feature_map: FeatureMap, encoder: TermEncoder) -> Array:
    """The deviations (outputs, points) of centred values, of independent noise on the weights (outputs, inputs)."""
    table, whitening = _taken_apart(feature_map)
    reached = at_points(table, encoder).T
    if whitening is not None:
        reached = whitening.matrix.cpu().numpy().T @ reached
    centred = Linear(reached, np.zeros(len(reached))).centred(encoder).values
    found: Array = np.sqrt(np.square(deviation) @ np.square(centred))
    return found


def at_points(table: FeatureMap, encoder: TermEncoder) -> Array:
    """The inputs of a table (points, inputs) that belong to each point of the terms: 0 but for those of its term."""
    found = np.zeros((encoder.n_features_out, table.shape_after((encoder.code_width,))[0]))
    blocks, place = list(encoder.blocks), 0
    for name, column in encoder.schema.features.items():
        for basis in encoder.bases(name):
            block = blocks.pop(0)
            found[block.start : block.stop, place : place + basis.at.shape[1]] = basis.at.numpy()
            place += basis.at.shape[1]
        if column.missing:
            found[blocks.pop(0).start, place] = _FLAG
            place += 1
    for block in blocks:  # of pairs, which are trained as they are
        points = block.stop - block.start
        found[block.start : block.stop, place : place + points] = np.eye(points)
        place += points
    return found


def _taken_apart(feature_map: FeatureMap) -> tuple[FeatureMap, Whitening | None]:
    """The encoding of the table, and the whitening behind it, if there is one."""
    if not isinstance(feature_map, Chain):
        return feature_map, None
    table, whitening = feature_map.feature_maps
    assert isinstance(table, FeatureMap)
    assert isinstance(whitening, Whitening)
    return table, whitening


def paired(encoder: FeatureMap, terms: TermEncoder) -> FeatureMap:
    """A table's inputs and, beside them, those of pairs of its columns, if there are any."""
    if not terms.pairs:
        return encoder
    alone = TermEncoder(terms.schema, terms.bins, pairs=terms.pairs, singles=False)
    return Joined((encoder, alone))


def _give_back(
    values: Array,
    constant: Array,
    block: Block,
    places: dict[tuple[str, str], Block],
) -> None:
    """Move the means of a pair along each axis into the terms of its columns, and its own mean into the constant."""
    grid = values[:, block.start : block.stop].reshape(len(values), *block.shape)
    first, second = block.axes
    of_first = grid[:, :, : second.listed].mean(axis=2)
    of_second = grid[:, : first.listed].mean(axis=1)
    mean = of_first[:, : first.listed].mean(axis=1)
    grid -= of_first[:, :, None] + of_second[:, None, :] - mean[:, None, None]
    values[:, block.start : block.stop] = grid.reshape(len(values), -1)
    constant += mean
    for axis, moved in ((first, of_first - mean[:, None]), (second, of_second - mean[:, None])):
        own = places[axis.column, ""]
        points = len(axis.labels) - axis.gap
        if axis.knots is None:
            values[:, own.start : own.stop] += moved[:, :points]
        else:
            fine = own.axes[0].knots
            assert fine is not None
            for row, line in zip(values, moved, strict=True):
                row[own.start : own.stop] += np.interp(fine, axis.knots, line[:points])
        if axis.gap:
            values[:, places[axis.column, "missing"].start] += moved[:, -1]


def numbers(tensor: Tensor) -> Array:
    """A tensor in double precision, as an array of its own."""
    return np.array(tensor.detach().cpu().double().numpy())
