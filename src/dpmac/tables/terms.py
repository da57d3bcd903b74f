"""The inputs of an additive model: for every term the weights of its points, which sum to 1.

A term of a column has the points of the column's bases (:mod:`dpmac.tables.kinds.bases`) and, where a cell may be
missing, one more for that. A term of a pair of columns has a grid of points: those of the one times those of the other,
coarser ones, with "other" and missing among them. A model that is linear in these inputs is a sum of terms, and its
weights are the terms' values at their points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps.base import FeatureMap, Shape
from dpmac.tables.encoder import TableEncoder
from dpmac.tables.kinds import KINDS, Array, ColumnKind
from dpmac.tables.kinds.bases import Basis, Own
from dpmac.tables.schema import Schema
from dpmac.tables.texts import did_you_mean

COARSE = 6  # pieces of a number in a pair
MOST_POINTS = 2_500  # of a pair
MISSING = "(missing)"


@dataclass(frozen=True, eq=False)
class Axis:
    """The points of one column: of one basis or, in a pair, of the column. ``listed`` of them are public values, which
    lie at the codes ``knots`` if they lie on a line; behind them are "other" and, if ``gap``, a missing cell."""

    column: str
    labels: tuple[str, ...]
    knots: Array | None
    listed: int
    gap: bool = False


@dataclass(frozen=True, eq=False)
class Block:
    """A part of a term in the inputs, from ``start`` on: a grid over its axes (one, or two of a pair)."""

    term: str
    name: str
    axes: tuple[Axis, ...]
    start: int

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.labels) for axis in self.axes)

    @property
    def stop(self) -> int:
        return self.start + int(np.prod(self.shape))


class TermEncoder(TableEncoder):
    """The rows of a table as weights of the points of terms: one term a column, and one for each of the ``pairs``.

    Without ``singles`` there are only the terms of pairs.
    """

    kind = "terms"

    def __init__(
        self,
        schema: Schema | Mapping[str, Any],
        bins: int = 12,
        vectors: Tensor | None = None,
        pairs: Sequence[Sequence[str]] = (),
        singles: bool = True,
    ) -> None:
        super().__init__(schema, bins, vectors)
        self.pairs, self.singles = checked_pairs(self.schema, pairs), bool(singles)
        features = self.schema.features
        self._bases = {name: tuple(column.bases(self.bins)) for name, column in features.items()}
        self._coarse = {name: features[name].bases(COARSE)[0] for pair in self.pairs for name in pair}
        self.blocks = tuple(self._laid_out())

    def bases(self, column: str) -> tuple[Basis, ...]:
        """The points of a column, by which its term is known."""
        return self._bases[column]

    def inputs(self, rows: Tensor) -> Tensor:
        made, start, codes = list[Tensor](), 0, dict[str, Tensor]()
        for name, column in self.schema.features.items():
            codes[name] = rows[:, start : start + column.code_width]
            start += column.code_width
            if self.singles:
                made.append(_weights(column, codes[name], self._bases[name]))
        for one, other in self.pairs:
            first, second = (_weights(self.schema.features[c], codes[c], (self._coarse[c],)) for c in (one, other))
            made.append((first.unsqueeze(2) * second.unsqueeze(1)).flatten(1))
        return torch.cat(made, dim=1)

    def _laid_out(self) -> list[Block]:
        found, place = list[Block](), 0

        def put(term: str, name: str, axes: tuple[Axis, ...]) -> None:
            nonlocal place
            found.append(Block(term, name, axes, place))
            place = found[-1].stop

        if self.singles:
            for name, column in self.schema.features.items():
                for basis in self._bases[name]:
                    put(name, basis.name, (_axis(name, basis),))
                if column.missing:
                    put(name, "missing", (Axis(name, (MISSING,), None, 0, True),))
        for pair in self.pairs:
            axes = tuple(_axis(name, self._coarse[name], self.schema.features[name].missing) for name in pair)
            put(name_of(pair), "", axes)
        return found

    @property
    def n_features_out(self) -> int:
        return self.blocks[-1].stop

    def get_feature_names_out(self, input_features: Any = None) -> Array:  # noqa: ARG002
        named = list[str]()
        for block in self.blocks:
            labels = block.axes[0].labels
            if len(block.axes) > 1:
                labels = tuple(f"{one}, {other}" for one in labels for other in block.axes[1].labels)
            named += [f"{f'{block.term} {block.name}'.strip()}: {label}" for label in labels]
        return np.array(named, dtype=object)

    def arguments(self) -> dict[str, Any]:
        more = {"pairs": [list(pair) for pair in self.pairs], "singles": self.singles}
        return super().arguments() | more

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        every = [(kind, place, column) for kind in KINDS for place, column in enumerate(KINDS[kind].samples())]
        columns = {f"{kind} {place}": column for kind, place, column in every}
        made = cls(Schema(columns), bins=3, pairs=[("number 2", "category 0"), ("date 0", "number 1")])
        return made, (made.code_width,)


def name_of(pair: Sequence[str]) -> str:
    """What the term of a pair is called."""
    return " x ".join(pair)


def checked_pairs(schema: Schema, pairs: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of columns of a schema, each of which can have a term; :class:`ArgumentError` else."""
    found, features = list[tuple[str, str]](), schema.features
    fix = 'give pairs of columns by name, such as [("age", "hours")]'
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise ArgumentError("additive", pairs, f"{fix}, or True for none")
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ArgumentError("additive", pair, fix)
        for name in pair:
            _check_paired(name, features)
        one, other = str(pair[0]), str(pair[1])
        if one == other or (one, other) in found or (other, one) in found:
            raise ArgumentError("additive", pair, "give two different columns, and each pair once")
        if name_of(pair) in features:
            raise ArgumentError(
                "additive", pair, f"a column is called {name_of(pair)!r}, as the pair's term: rename it"
            )
        points = int(np.prod([_points(features[name]) for name in pair]))
        if points > MOST_POINTS:
            fix = f"its grid would have {points:,} points, and {MOST_POINTS:,} are the most: list fewer values"
            raise ArgumentError("additive", pair, fix)
        found.append((one, other))
    return tuple(found)


def _check_paired(name: Any, features: Mapping[str, ColumnKind]) -> None:
    if name not in features:
        hint = did_you_mean(str(name), features)
        raise ArgumentError("additive", name, f"it is not among the columns {list(features)}{hint}")
    if isinstance(features[name].bases(COARSE)[0], Own):
        fix = f"a {features[name].kind} has no points to make a grid of: leave it out of pairs"
        raise ArgumentError("additive", name, fix)


def _points(column: ColumnKind) -> int:
    return len(column.bases(COARSE)[0].labels) + column.missing


def _axis(name: str, basis: Basis, gap: bool = False) -> Axis:
    knots = basis.places
    labels = basis.labels
    if gap:
        labels = (*labels, MISSING)
    return Axis(name, labels, None if knots is None else knots.numpy(), basis.listed, gap)


def _weights(column: ColumnKind, code: Tensor, bases: Sequence[Basis]) -> Tensor:
    """The weights of all points of bases, and of a missing cell where that may be."""
    there = ~(torch.isnan(code) | torch.isinf(code))
    known = torch.where(there, code, torch.zeros_like(code))
    made = [basis.weights(known, there) for basis in bases]
    if column.missing:
        made.append((~there[:, :1]).to(code.dtype))
    return torch.cat(made, dim=1)
