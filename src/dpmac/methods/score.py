"""One number for how good a model is, from one small private release: what a search chooses by.

A row's *merit* r lies between 0, as bad as it counts, and 1. A row adds 2 r - 1 to a sum, which is at most 1 long
whatever the row holds, and the number of rows is public: so the mean of r follows, with half the noise that adding r
would take. Rows that were not trained on say more about a model than those that were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import chosen
from dpmac.extensions.provenance import check_origin
from dpmac.extensions.row_independence import ROWS, check_row_independence
from dpmac.planning.calibration import calibrate as least_noise
from dpmac.privacy import DensePart, Ledger, Mechanism, Part, Partition, PerLayerClip, PrivateRows, Query, release
from dpmac.privacy.accounting import check_multiplier
from dpmac.randomness import NoiseSource

LABEL = "score"
MERIT = "merit"
QUARTER = 0.5  # of the range [-1, 1] of a regression's targets: an error beyond it is as bad as one
Outputs = Callable[..., Tensor]  # of the columns of inputs
Merit = Callable[[Tensor, Tensor], Tensor]  # of outputs and targets, (rows, units) each, to (rows,)


def _right(u: Tensor, y: Tensor) -> Tensor:
    """1 where the class with the largest output is the row's own, else 0."""
    return (u.argmax(dim=1) == y.argmax(dim=1)).double()


def _likely(u: Tensor, y: Tensor) -> Tensor:
    """1 less the log-loss, in units of twice that of knowing nothing, at which it is clipped."""
    loss = -(torch.log_softmax(u, dim=1) * y).sum(dim=1)
    return 1 - (loss / (2 * math.log(u.shape[1]))).clamp(0, 1)


def _close(u: Tensor, y: Tensor) -> Tensor:
    """1 less the distance from the target, in quarters of its range, of which one is as bad as it counts."""
    return 1 - ((u.clamp(-1, 1) - y.clamp(-1, 1)).abs().mean(dim=1) / QUARTER).clamp(0, 1)


MERITS: dict[str, Merit] = {"accuracy": _right, "log_loss": _likely, "error": _close}
"""By the names that a search takes. Every one is within [0, 1] for any finite outputs and targets."""


@dataclass(frozen=True)
class Score:
    """The mean merit of a model's outputs, by one unsampled Gaussian release of ``noise_multiplier``."""

    noise_multiplier: float
    merit: str = "accuracy"

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))
        chosen("scoring", self.merit, MERITS)

    @classmethod
    def for_budget(cls, epsilon: float, delta: float, merit: str) -> Score:
        """That costs as much as (epsilon, delta)."""
        return cls(least_noise(lambda s: (Mechanism(s),), epsilon, delta), merit)

    def mechanism(self) -> Mechanism:
        return Mechanism(self.noise_multiplier, 1.0, 1, LABEL)

    def deviation(self, n: int) -> float:
        """Of the noise in the mean of ``n`` rows."""
        scale = self.query(lambda x: x).partitions[0].scale
        assert scale is not None
        return self.noise_multiplier * scale / 2 / n

    def of(self, rows: PrivateRows, outputs: Outputs, source: NoiseSource, ledger: Ledger) -> float:
        """The mean merit, with its noise: it may be below 0 or above 1. The last column of ``rows`` has the targets."""
        check_origin(ledger, outputs=outputs)
        check_row_independence("outputs", outputs, rows.blank(ROWS)[:-1], tokens=True)
        answer = release(
            rows.everything(),
            self.query(outputs),
            noise_multiplier=self.noise_multiplier,
            source=source,
            ledger=ledger,
            divisor=rows.n,
        )
        return (float(answer[MERIT]) + 1) / 2

    def query(self, outputs: Outputs) -> Query:
        bound, merit = PerLayerClip(1.0), MERITS[self.merit]

        def parts(*columns: Tensor) -> list[Part]:
            u, y = outputs(*columns[:-1]).double(), columns[-1].double()
            r = _within(merit, u, y)
            return bound.apply([DensePart((2 * r - 1).unsqueeze(1))])

        return Query(LABEL, bound.promise([Partition(MERIT, (1,))]), parts)


def merit_of(name: str, outputs: Tensor, targets: Tensor) -> float:
    """The exact mean merit on rows that are public: a number from 0 to 1, also of a model that has diverged."""
    return float(_within(MERITS[name], outputs.double(), targets.double()).mean())


def _within(merit: Merit, u: Tensor, y: Tensor) -> Tensor:
    """The merit of every row, from 0 to 1; 0 where outputs or targets are no numbers. What is compared has an order."""
    return torch.nan_to_num(merit(torch.nan_to_num(u), y), nan=0.0).clamp(0, 1)
