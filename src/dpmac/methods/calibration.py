"""Probabilities that mean something: a private recalibration of a classifier's own logits.

Clipping every example's gradient keeps the ranking and spoils the probabilities. A logistic layer of two numbers on
the model's logit (a slope and an offset; for more than two classes one temperature) puts them right. Its order-2
release is tiny: a gradient and a curvature, a few rounds of a damped Newton step, through the same door.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import integer, number
from dpmac.privacy import (
    DensePart,
    GramPart,
    Ledger,
    Mechanism,
    Part,
    Partition,
    PerLayerClip,
    PrivateRows,
    Query,
    release,
)
from dpmac.privacy.accounting import calibrate as least_noise
from dpmac.privacy.accounting import check_multiplier
from dpmac.randomness import NoiseSource

LABEL = "calibration"
SLOPE, CURVATURE = "calibration slope", "calibration curvature"
REACH = 8.0  # logits are clipped to it: beyond, a probability is 0 or 1 within a thousandth


@dataclass(frozen=True)
class Calibration:
    """``rounds`` Newton steps, each one unsampled Gaussian release of ``noise_multiplier``.

    ``ridge`` (in examples) damps a curvature that noise has drowned, and a step is never longer than ``longest``: a
    noisy round can cost calibration, never the ranking, since the slope stays above a tenth of 1.
    """

    noise_multiplier: float
    rounds: int = 6
    ridge: float = 10.0
    longest: float = 1.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))
        integer("rounds", self.rounds, "give a number of rounds, at least 1")
        number("ridge", self.ridge, "give a number above 0", low=1e-9, high=1e12)
        number("longest", self.longest, "give a number above 0", low=1e-9, high=1e3)

    @classmethod
    def for_share(cls, share: float, epsilon: float, delta: float, rounds: int = 6) -> Calibration:
        """That costs the ``share`` of one Gaussian mechanism of (epsilon, delta): the squares of 1 / sigma add up."""
        number("share", share, "give a part of the budget above 0 and below 1", low=1e-6, high=0.999999)
        whole = least_noise(lambda s: (Mechanism(s),), epsilon, delta)
        return cls(whole * math.sqrt(rounds / share), rounds)

    def mechanism(self) -> Mechanism:
        """What all rounds cost, for a plan."""
        return Mechanism(self.noise_multiplier, 1.0, self.rounds, LABEL)

    def fit(
        self, rows: PrivateRows, logits: Callable[[Tensor], Tensor], source: NoiseSource, ledger: Ledger
    ) -> tuple[float, float]:
        """Slope and offset for ``logits(x)`` of a table of rows and one-hot targets; offset 0 for over two classes.

        ``logits`` gives (rows, classes) of a block of raw rows, row by row. The calibrated logits are slope * u, with
        the offset added to the second of two classes.
        """
        classes = rows.shapes[1][0]
        theta = torch.tensor([1.0, 0.0] if classes == 2 else [1.0], dtype=torch.float64)
        for _ in range(self.rounds):
            answer = release(
                rows.everything(),
                self.query(logits, theta, classes),
                noise_multiplier=self.noise_multiplier,
                source=source,
                ledger=ledger,
            )
            theta = self._moved(theta, answer[SLOPE].cpu(), answer[CURVATURE][0].cpu(), rows.n)
        return float(theta[0]), float(theta[1]) if classes == 2 else 0.0

    def query(self, logits: Callable[[Tensor], Tensor], theta: Tensor, classes: int) -> Query:
        """Gradient and curvature of the log-loss in (slope, offset), on logits clipped to REACH and divided by it."""
        width = len(theta)
        bound = PerLayerClip((math.sqrt(width), 0.25 * width)) if classes == 2 else PerLayerClip((2.0, 1.0))

        def parts(x: Tensor, y: Tensor) -> list[Part]:
            u = logits(x).double().clamp(-REACH, REACH)
            here = theta.to(u.device)
            slope, bend, inputs = (_binary if classes == 2 else _many)(u, y.double(), here)
            return bound.apply([DensePart(slope), GramPart(bend, inputs)])

        asked = [Partition(SLOPE, (width,)), Partition(CURVATURE, (1, width, width), symmetric=True)]
        return Query(LABEL, bound.promise(asked), parts)

    def _moved(self, theta: Tensor, slope: Tensor, curvature: Tensor, n: int) -> Tensor:
        """A damped Newton step in units of REACH; directions that the noise has drowned hardly move."""
        values, vectors = torch.linalg.eigh(curvature)
        level = self.ridge + 2 * self.noise_multiplier  # an eigenvalue that noise alone could make
        step = vectors @ ((vectors.T @ slope) / (values.clamp(min=0.0) + min(level, 0.05 * n + self.ridge)))
        scale = torch.tensor([1 / REACH, 1.0], dtype=torch.float64)[: len(theta)]
        step = step * scale
        length = float(step.norm())
        moved: Tensor = theta - step * min(1.0, self.longest / max(length, 1e-300))
        moved[0] = moved[0].clamp(0.1, 20.0)
        return moved


def _binary(u: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of p = sigmoid(slope * (u_1 - u_0) + offset): (p - y) f and p (1 - p) f f^T with f = (u / REACH, 1)."""
    margin = (u[:, 1] - u[:, 0]).clamp(-REACH, REACH)
    inputs = torch.stack([margin / REACH, torch.ones_like(margin)], dim=1)
    p = torch.sigmoid(theta[0] * margin + theta[1])
    return (p - y[:, 1]).unsqueeze(1) * inputs, (p * (1 - p)).unsqueeze(1), inputs


def _many(u: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of p = softmax(slope * u): the expected logit less the true one, and the logit's variance, over REACH."""
    unit = u / REACH
    p = torch.softmax(theta[0] * u, dim=1)
    mean = (p * unit).sum(dim=1, keepdim=True)
    spread = (p * (unit - mean).square()).sum(dim=1, keepdim=True)
    return mean - (y * unit).sum(dim=1, keepdim=True), spread, torch.ones_like(spread)
