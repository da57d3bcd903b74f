"""Scores of a finished model on private rows: bounded sums and counts, all in one small release.

A score is a mean over rows, or follows from counts of them. Every *tally* is a vector of length 1 at most for each row:
a count in one cell of a histogram, or a few bounded numbers. Tallies have public shares of one unsampled Gaussian
release: with share w a tally's scale is 1 / sqrt(w), so that all of them together, over their scales, have length

    sqrt(sum_i w_i |t_i|^2) <= sqrt(sum_i w_i) = 1

for every possible row. A clip guards it, and the release checks every row. The model runs inside the query, in blocks
of public shape: predictions of a whole table beforehand would round by how many rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.methods.one_release import OneRelease, Outputs, noise_for
from dpmac.privacy import DensePart, JointClip, Ledger, Part, Partition, PrivateRows, Query
from dpmac.randomness import NoiseSource

LABEL = "scores"
Array = np.ndarray[Any, Any]
Rows = Callable[[Tensor, Tensor], Tensor]  # a block of outputs and of targets, to numbers for every row


@dataclass(frozen=True)
class Tally:
    """``width`` numbers of every row, together of length 1 at most, and the tally's share of the release."""

    name: str
    width: int
    share: float
    of: Rows


@dataclass(frozen=True, eq=False)
class Tallied:
    """What was released: the noisy sums of every tally, and the standard deviation of the noise in each number of it.

    ``n`` is the number of rows or, where the unit of privacy is a person, of persons: each has the same influence.
    """

    sums: Mapping[str, Array]
    noise: Mapping[str, float]
    n: int


@dataclass(frozen=True)
class Scores(OneRelease):
    """One unsampled Gaussian release of some tallies of a model's outputs and the targets."""

    noise_multiplier: float
    tallies: tuple[Tally, ...]
    label: str = LABEL

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "tallies", tuple(self.tallies))
        if not self.tallies or min(tally.share for tally in self.tallies) <= 0:
            raise ArgumentError("tallies", self.tallies, "give at least one, each with a share above 0")

    @classmethod
    def for_budget(cls, epsilon: float, delta: float, tallies: Sequence[Tally], label: str = LABEL) -> Scores:
        """With the least noise at which the release alone is (epsilon, delta)-differentially private."""
        return cls(noise_for(epsilon, delta), tuple(tallies), label)

    def fit(
        self,
        rows: PrivateRows,
        outputs: Outputs,
        source: NoiseSource,
        ledger: Ledger,
        micro_batch: int | None = None,
    ) -> Tallied:
        """Release the tallies of ``outputs``, which gets a block of all columns but the last; that holds the targets.

        Adds exactly one entry to ``ledger``, which must hold what has shaped the model.
        """
        answer = self._released(rows, outputs, self.query(outputs), source, ledger, micro_batch)
        noise = {tally.name: self.deviation(tally) for tally in self.tallies}
        return Tallied({name: found.cpu().numpy() for name, found in answer.items()}, noise, rows.n)

    def deviation(self, tally: Tally) -> float:
        """Of the noise in each number that is released of ``tally``."""
        return self.noise_multiplier * self._scale(tally)

    def _scale(self, tally: Tally) -> float:
        return math.sqrt(math.fsum(one.share for one in self.tallies) / tally.share)

    def query(self, outputs: Outputs) -> Query:
        bound = JointClip(tuple(self._scale(tally) for tally in self.tallies))

        def parts(*columns: Tensor) -> list[Part]:
            found, targets = outputs(*columns[:-1]).double(), columns[-1].double()
            return bound.apply([DensePart(tally.of(found, targets)) for tally in self.tallies])

        named = [Partition(tally.name, (tally.width,)) for tally in self.tallies]
        return Query(self.label, bound.promise(named), parts)


# --- tallies ----------------------------------------------------------------------------------------------------------


def counts(name: str, share: float, cells: int, cell: Rows) -> Tally:
    """A histogram: ``cell`` is the number of every row's cell."""
    return Tally(name, cells, share, lambda u, y: torch.nn.functional.one_hot(cell(u, y).long(), cells).double())


def numbers(name: str, share: float, of: Sequence[Rows]) -> Tally:
    """Sums of numbers from 0 to 1, one each, which are clipped to that. What is summed is 2 x - 1, over sqrt(k)."""

    def rows(u: Tensor, y: Tensor) -> Tensor:
        found = torch.stack([one(u, y) for one in of], dim=1)
        return (2.0 * found.clamp(0.0, 1.0) - 1.0) / math.sqrt(len(of))

    return Tally(name, len(of), share, rows)


def means(found: Tallied, name: str) -> tuple[Array, float]:
    """The means of what :func:`numbers` has summed, from 0 to 1 but for noise, and their noise."""
    size = math.sqrt(len(found.sums[name])) / 2.0
    return 0.5 + size * found.sums[name] / found.n, size * found.noise[name] / found.n
