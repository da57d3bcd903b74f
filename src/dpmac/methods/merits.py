"""One number for how good a model is: what a search chooses by. It is one tally (:mod:`dpmac.methods.scores`).

A row's *merit* r lies between 0, as bad as it counts, and 1. The tally adds 2 r - 1 to a sum, which is at most 1 long
whatever the row holds, and the number of rows is public: so the mean of r follows, with half the noise that adding r
would take. Rows that were not trained on say more about a model than those that were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from dpmac.checks import chosen
from dpmac.methods.one_release import OneRelease, Outputs, noise_for
from dpmac.methods.scores import Scores, means, numbers
from dpmac.privacy import Ledger, PrivateRows, Query
from dpmac.randomness import NoiseSource

LABEL = "score"
MERIT = "merit"
QUARTER = 0.5  # of the range [-1, 1] of a regression's targets: an error beyond it is as bad as one
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
class Score(OneRelease):
    """The mean merit of a model's outputs, by one unsampled Gaussian release of ``noise_multiplier``."""

    noise_multiplier: float
    merit: str = "accuracy"
    label = LABEL

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen("scoring", self.merit, MERITS)

    @classmethod
    def for_budget(cls, epsilon: float, delta: float, merit: str) -> Score:
        """That costs as much as (epsilon, delta)."""
        return cls(noise_for(epsilon, delta), merit)

    def deviation(self, n: int) -> float:
        """Of the noise in the mean of ``n`` rows."""
        scores = self._scores()
        return scores.deviation(scores.tallies[0]) / 2 / n

    def of(self, rows: PrivateRows, outputs: Outputs, source: NoiseSource, ledger: Ledger) -> float:
        """The mean merit, with its noise: it may be below 0 or above 1. The last column of ``rows`` has the targets."""
        return float(means(self._scores().fit(rows, outputs, source, ledger), MERIT)[0][0])

    def query(self, outputs: Outputs) -> Query:
        return self._scores().query(outputs)

    def _scores(self) -> Scores:
        merit = numbers(MERIT, 1.0, [partial(_within, MERITS[self.merit])])
        return Scores(self.noise_multiplier, (merit,), LABEL)


def merit_of(name: str, outputs: Tensor, targets: Tensor) -> float:
    """The exact mean merit on rows that are public: a number from 0 to 1, also of a model that has diverged."""
    return float(_within(MERITS[name], outputs.double(), targets.double()).mean())


def _within(merit: Merit, u: Tensor, y: Tensor) -> Tensor:
    """The merit of every row, from 0 to 1; 0 where outputs or targets are no numbers. What is compared has an order."""
    return torch.nan_to_num(merit(torch.nan_to_num(u), y), nan=0.0).clamp(0, 1)
