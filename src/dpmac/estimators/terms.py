"""The terms of a fitted additive model: what it makes of each column, and of each pair, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.tables import TermEncoder
from dpmac.tables.kinds import Array
from dpmac.tables.terms import Block
from dpmac.tables.texts import did_you_mean

INTERCEPT = "intercept"
_BLOCK = 4096  # rows at a time


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """A sum of terms: their values (outputs, points) at the points of the encoder, and an intercept (outputs,).

    ``noise`` is the deviation of the released noise on each value (:mod:`dpmac.mac.wsteps.gain`), or zeros;
    ``by_hand`` are the terms that somebody has set since. ``link`` says what becomes of the sum: "logistic", "softmax",
    "labels" (a logistic for each) or "number", within ``limits``.
    """

    encoder: TermEncoder
    values: Array
    intercept: Array
    noise: Array
    outputs: tuple[str, ...]
    link: str
    limits: tuple[float, float] | None = None
    by_hand: frozenset[str] = frozenset()

    @cached_property
    def blocks(self) -> dict[str, tuple[Block, ...]]:
        """The parts of every term."""
        names = dict.fromkeys(block.term for block in self.encoder.blocks)
        return {name: tuple(b for b in self.encoder.blocks if b.term == name) for name in names}

    def contributions(self, rows: Tensor) -> dict[str, Array]:
        """What each term says of rows of codes, (rows,) or (rows, outputs), and the intercept for each."""
        made: dict[str, list[Array]] = {name: [] for name in self.blocks}
        for some in torch.split(rows, _BLOCK):
            weights = self.encoder(some.to(self._device)).cpu().numpy()
            for name, blocks in self.blocks.items():
                parts = (weights[:, b.start : b.stop] @ self.values[:, b.start : b.stop].T for b in blocks)
                made[name].append(np.add.reduce(list(parts)))
        found = {INTERCEPT: np.tile(self.intercept, (len(rows), 1))}
        found |= {name: np.concatenate(parts) for name, parts in made.items()}
        return {name: self.plain(values) for name, values in found.items()}

    def plain(self, values: Array) -> Array:
        """Values (..., outputs) without the last axis, where there is one output."""
        if len(self.outputs) == 1:
            return np.asarray(values[..., 0])
        return values

    @property
    def _device(self) -> Any:
        return next((buffer.device for buffer in self.encoder.buffers()), "cpu")


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a term: values at points, (points,), of a pair (points, points); of several outputs one axis more.

    ``labels`` names the points of each axis; ``knots`` has their numbers where they lie on a line, between which the
    part is linear and beyond which it stays (of a date days since 2000-01-01), else None. ``band`` is the deviation of
    the known noise, None where the values were set by hand. ``name`` is "" but for "missing" and a date's parts.
    """

    name: str
    labels: tuple[tuple[str, ...], ...]
    knots: tuple[Array | None, ...]
    values: Array
    band: Array | None

    @property
    def size(self) -> float:
        """How far apart its values are, of the output that moves most."""
        return float(np.ptp(self.values.reshape(*self.values.shape[: len(self.labels)], -1), axis=self._points).max())

    @property
    def _points(self) -> tuple[int, ...]:
        return tuple(range(len(self.labels)))


@dataclass(frozen=True, eq=False)
class Term:
    """One function: ``parts`` that add up. Most columns have one, and one more for missing cells."""

    name: str
    columns: tuple[str, ...]
    parts: tuple[Part, ...]
    by_hand: bool

    @property
    def values(self) -> Array:
        """Those of its first part."""
        return self.parts[0].values

    @property
    def band(self) -> Array | None:
        """The deviation of the noise on :attr:`values`; None of values that were set by hand."""
        return self.parts[0].band

    @property
    def knots(self) -> Any:
        """The numbers of the first part's points, between which it is linear; None of a category. Of a pair two."""
        if len(self.columns) > 1:
            return self.parts[0].knots
        return self.parts[0].knots[0]

    @property
    def labels(self) -> Any:
        """What the first part's points are called; of a pair, along either axis."""
        if len(self.columns) > 1:
            return self.parts[0].labels
        return self.parts[0].labels[0]

    @property
    def missing(self) -> Any:
        """What is added for a missing cell, in place of the other parts; None where none may be missing."""
        for part in self.parts:
            if part.name == "missing":
                return part.values[0]
        return None

    @property
    def size(self) -> float:
        """How far the term can move the sum."""
        values = np.concatenate([part.values.ravel() for part in self.parts if part.name != "missing"])
        if len(values) == 0:
            return 0.0
        return max(part.size for part in self.parts)


class Terms(Mapping[str, Term]):
    """The terms by name, in the order of the columns and then of the pairs; ``intercept``, and the ``outputs``' names.

    Of two classes there is one output, the logit of the second; of more classes, or labels, one each. Of a regressor
    everything is in the units of the target.
    """

    def __init__(self, model: AdditiveModel) -> None:
        self.model, self.outputs = model, model.outputs
        self.intercept = model.plain(model.intercept)

    def __getitem__(self, name: str) -> Term:
        if name not in self.model.blocks:
            raise ArgumentError("term", name, f"there are {list(self.model.blocks)}{did_you_mean(name, self)}")
        blocks, by_hand = self.model.blocks[name], name in self.model.by_hand
        columns = tuple(axis.column for axis in blocks[0].axes)
        return Term(name, columns, tuple(self._part(block, by_hand) for block in blocks), by_hand)

    def __iter__(self) -> Iterator[str]:
        return iter(self.model.blocks)

    def __len__(self) -> int:
        return len(self.model.blocks)

    def __contains__(self, name: object) -> bool:
        return name in self.model.blocks

    def ranked(self) -> list[Term]:
        """Those that can move the sum furthest first."""
        return sorted(self.values(), key=lambda term: -term.size)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{term.name} {term.size:.3g}" for term in self.ranked())
        return f"Terms of {', '.join(self.outputs)}: {sizes}"

    def _part(self, block: Block, by_hand: bool) -> Part:
        def shaped(numbers: Array) -> Array:
            some = numbers[:, block.start : block.stop]
            return self.model.plain(some.reshape(len(some), *block.shape).transpose(*range(1, len(block.shape) + 1), 0))

        band = None
        if not by_hand:
            band = shaped(self.model.noise)
        labels, knots = tuple(axis.labels for axis in block.axes), tuple(axis.knots for axis in block.axes)
        return Part(block.name, labels, knots, shaped(self.model.values), band)
