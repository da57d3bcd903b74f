"""Probabilities that mean something: a private recalibration of a classifier's own logits.

Clipping every example's gradient keeps the ranking and spoils the probabilities. A logistic layer of two numbers on
the model's logit (a slope and an offset; for more than two classes, or several labels a row, one temperature) puts
them right. Its order-2 release is tiny: a gradient and a curvature, a few rounds of a damped Newton step, through the
same release.

What one row can contribute. Outputs are clipped to REACH and divided by it, so every unit logit v has |v| <= 1, and
|p - y| <= 1, p (1 - p) <= 1/4:

- two classes, with f = (v, 1): the slope (p - y) f is at most sqrt(2) long, the curvature p (1 - p) f f^T at most 1/2;
- more classes: the expected unit logit less the true one is at most 2, the variance of a number in [-1, 1] at most 1;
- several labels a row: the *mean* over labels of (p_h - y_h) v_h is at most 1, that of p_h (1 - p_h) v_h^2 at most 1/4,
  however many labels there are. A slope and an offset for each label would need sqrt(labels) the noise on every one.

Public weights of the classes are divided by the largest: no share grows, and the same bounds hold. All of this is
handed to a clip, and the release checks every row: none of it is taken on trust.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import integer, number
from dpmac.mac.released import eigen, tamed
from dpmac.methods.objective import learn_from_all_rows
from dpmac.methods.one_release import Outputs, check_finished, noise_for
from dpmac.privacy import (
    Answer,
    DensePart,
    GramPart,
    Ledger,
    Mechanism,
    Part,
    Partition,
    PerLayerClip,
    PrivateRows,
    Query,
)
from dpmac.privacy.accounting import check_multiplier
from dpmac.randomness import NoiseSource

LABEL = "calibration"
SLOPE, CURVATURE = "calibration slope", "calibration curvature"
REACH = 8.0  # logits are clipped to it: beyond, a probability is 0 or 1 within a thousandth
Keep = Callable[[int, Sequence[float]], None]


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
        return cls(noise_for(epsilon, delta) * math.sqrt(rounds / share), rounds)

    def mechanism(self) -> Mechanism:
        """What all rounds cost, for a plan."""
        return Mechanism(self.noise_multiplier, 1.0, self.rounds, LABEL)

    def fit(
        self,
        rows: PrivateRows,
        logits: Outputs,
        source: NoiseSource,
        ledger: Ledger,
        *,
        several: bool = False,
        weights: Tensor | None = None,
        made: int = 0,
        kept: Sequence[float] | None = None,
        keep: Keep | None = None,
        micro_batch: int | None = None,
    ) -> tuple[float, float]:
        """Slope and offset for ``logits(x)`` of a table of rows and targets; offset 0 but for two classes.

        ``logits`` gives (rows, classes) of a block of raw rows, row by row; of a table of several columns it gets all
        but the last, which holds the targets. The calibrated logits are slope * u, with
        the offset added to the second of two classes. Targets are one-hot, or with ``several`` any number of labels may
        be 1. ``weights``, public, are those of the classes, or (labels, 2) of every label that is off and on: a model
        that was trained with them is calibrated for the same re-weighted problem.

        After every round ``keep(rounds made, numbers)`` is called. A calibration that was interrupted goes on behind
        the ``made`` rounds that are paid for, from the numbers ``kept`` (None: those of the start).
        """
        check_finished(rows, logits, ledger, "logits")
        rescaling = Rescaling.started(self, logits, rows, several, weights, kept)
        for done in range(made, self.rounds):
            learn_from_all_rows(
                rescaling,
                rows,
                noise_multiplier=self.noise_multiplier,
                source=source,
                ledger=ledger,
                micro_batch=micro_batch,
            )
            if keep is not None:
                keep(done + 1, rescaling.theta.tolist())
        slope, offset = (*rescaling.theta.tolist(), 0.0)[:2]
        return slope, offset

    def query(
        self, logits: Outputs, theta: Tensor, classes: int, *, several: bool = False, weights: Tensor | None = None
    ) -> Query:
        """Gradient and curvature of the log-loss in (slope, offset), on logits clipped to REACH and divided by it."""
        width = len(theta)
        if classes > 2:
            rule, thresholds = _many, (2.0, 1.0)
        else:
            rule, thresholds = _binary, (math.sqrt(width), 0.25 * width)
        if several:
            rule, thresholds = _labels, (1.0, 0.25)
        bound = PerLayerClip(thresholds)
        public = weights
        if public is not None:
            public = public.double() / public.max()

        def parts(*columns: Tensor) -> list[Part]:
            u, y = logits(*columns[:-1]).double().clamp(-REACH, REACH), columns[-1].double()
            slope, bend, inputs = rule(u, y, theta.to(u.device), _moved_to(public, y.device))
            return bound.apply([DensePart(slope), GramPart(bend, inputs)])

        asked = [Partition(SLOPE, (width,)), Partition(CURVATURE, (1, width, width), symmetric=True)]
        return Query(LABEL, bound.promise(asked), parts)

    def _moved(self, theta: Tensor, slope: Tensor, curvature: Tensor, n: int, size: float) -> Tensor:
        """A damped Newton step in units of REACH; directions that the noise has drowned hardly move.

        ``size`` is what one row's curvature is at most. Of any finite numbers the answer is finite.
        """
        values, vectors = eigen(curvature)
        level = size * (self.ridge + 2 * self.noise_multiplier)  # an eigenvalue that noise alone could make
        step = vectors @ ((vectors.T @ tamed(slope)) / (values.clamp(min=0.0) + min(level, 0.05 * n + self.ridge)))
        scale = torch.tensor([1 / REACH, 1.0], dtype=torch.float64)[: len(theta)]
        step = step * scale
        length = float(step.norm())
        moved: Tensor = theta - step * min(1.0, self.longest / max(length, 1e-300))
        moved[0] = moved[0].clamp(0.1, 20.0)
        return moved


@dataclass
class Rescaling:
    """The objective of one calibration: ``theta`` is the slope and, of two classes, the offset learned so far."""

    calibration: Calibration
    logits: Outputs
    classes: int
    n: int
    theta: Tensor
    several: bool = False
    weights: Tensor | None = None

    @classmethod
    def started(
        cls,
        calibration: Calibration,
        logits: Outputs,
        rows: PrivateRows,
        several: bool,
        weights: Tensor | None,
        kept: Sequence[float] | None,
    ) -> Rescaling:
        """At the numbers ``kept`` or, without any, at logits as they are."""
        classes = rows.shapes[-1][0]
        start = [1.0]
        if classes == 2 and not several:
            start = [1.0, 0.0]
        if kept is not None:
            start = list(kept)
        theta = torch.tensor(start, dtype=torch.float64)
        return cls(calibration, logits, classes, rows.n, theta, several, weights)

    def query(self) -> Query:
        return self.calibration.query(self.logits, self.theta, self.classes, several=self.several, weights=self.weights)

    def apply(self, answer: Answer) -> None:
        size = 1.0
        if self.several:
            size = 0.25
        slope, curvature = answer[SLOPE].cpu(), answer[CURVATURE][0].cpu()
        self.theta = self.calibration._moved(self.theta, slope, curvature, self.n, size)


def _binary(u: Tensor, y: Tensor, theta: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Of p = sigmoid(slope * (u_1 - u_0) + offset): (p - y) f and p (1 - p) f f^T with f = (u / REACH, 1)."""
    margin = (u[:, 1] - u[:, 0]).clamp(-REACH, REACH)
    inputs = torch.stack([margin / REACH, torch.ones_like(margin)], dim=1)
    p = torch.sigmoid(theta[0] * margin + theta[1])
    w = _of_class(y, weights)
    return w * (p - y[:, 1]).unsqueeze(1) * inputs, w * (p * (1 - p)).unsqueeze(1), inputs


def _many(u: Tensor, y: Tensor, theta: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Of p = softmax(slope * u): the expected logit less the true one, and the logit's variance, over REACH."""
    unit = u / REACH
    p = torch.softmax(theta[0] * u, dim=1)
    mean = (p * unit).sum(dim=1, keepdim=True)
    spread = (p * (unit - mean).square()).sum(dim=1, keepdim=True)
    w = _of_class(y, weights)
    return w * (mean - (y * unit).sum(dim=1, keepdim=True)), w * spread, torch.ones_like(spread)


def _labels(u: Tensor, y: Tensor, theta: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Of p_h = sigmoid(slope * u_h): the means over the labels of (p - y) u / REACH, and of p (1 - p) (u / REACH)^2."""
    unit = u / REACH
    p = torch.sigmoid(theta[0] * u)
    if weights is None:
        w = torch.ones_like(y)
    else:
        w = weights[:, 0] + (weights[:, 1] - weights[:, 0]) * y
    slope = (w * (p - y) * unit).mean(dim=1, keepdim=True)
    bend = (w * p * (1 - p) * unit.square()).mean(dim=1, keepdim=True)
    return slope, bend, torch.ones_like(bend)


def _moved_to(weights: Tensor | None, device: torch.device) -> Tensor | None:
    if weights is None:
        return None
    return weights.to(device)


def _of_class(y: Tensor, weights: Tensor | None) -> Tensor:
    """The weight of each row's own class, (rows, 1)."""
    if weights is None:
        return torch.ones_like(y[:, :1])
    return (y * weights).sum(dim=1, keepdim=True)
