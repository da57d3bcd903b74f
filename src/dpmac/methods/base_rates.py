"""Base rates: offsets that bring a classifier's mean probabilities to the classes' own shares, by one small release.

With few rows, clipped steps are too short to bring a rare class's probability down from where every class begins. A
calibration of several rounds (:mod:`dpmac.methods.calibration`) asks more than such a budget can answer. This asks how
many rows each class has, and how many the model believes it has, and adds the difference of their logarithms (of
several labels, of their log-odds) to the logits. No ranking of rows by one class's logit against another's changes.

What one row can contribute, with K classes or labels:

- one class a row: its one-hot label less 1/K, and the model's probabilities less 1/K, are each sqrt((K - 1) / K) long
  at most. The number of rows is public, so the sums are the counts;
- several labels a row: both less 1/2 are sqrt(K) / 2 long at most.

Public weights of the classes are divided by the largest, and multiply the probabilities only. The bound is handed to a
clip, and the release checks every row.

A noisy count is not a rate: it may be negative. What is taken is the posterior mean under Jeffreys' prior, given the
count and its noise. Where the noise drowns both counts both rates are the prior's, and nothing is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.mac.released import tamed
from dpmac.methods.one_release import OneRelease, Outputs
from dpmac.privacy import Answer, DensePart, Ledger, Part, Partition, PerLayerClip, PrivateRows, Query
from dpmac.randomness import NoiseSource

LABEL = "base rates"
LABELS, BELIEVED = "labels", "believed labels"
REACH = 30.0  # logits are clipped to it
FINE = 20_000  # points of the prior
Keep = Callable[[int, Sequence[float]], None]


@dataclass(frozen=True)
class BaseRates(OneRelease):
    """One unsampled Gaussian release of the classes' counts, in the labels and in the model's probabilities."""

    noise_multiplier: float
    rounds = 1
    label = LABEL

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
    ) -> tuple[float, ...]:
        """1, the slope, and offsets of the logits: of every class but the first, or of every label.

        The arguments are those of :meth:`Calibration.fit`.
        """
        if made and kept is not None:
            return (1.0, *kept)
        query = self.query(logits, rows.shapes[-1][0], several=several, weights=weights)
        sums = self._released(rows, logits, query, source, ledger, micro_batch, "logits")
        answer = {name: one / rows.n for name, one in sums.items()}
        offsets = self._offsets(answer, rows.n, several, weights)
        if keep is not None:
            keep(1, offsets)
        return (1.0, *offsets)

    def query(self, logits: Outputs, units: int, *, several: bool = False, weights: Tensor | None = None) -> Query:
        """The labels and the model's probabilities, each less what they are at no knowledge."""
        bound, middle = PerLayerClip(_longest(units, several)), _middle(units, several)
        public = weights
        if public is not None:
            public = public.double() / public.max()

        def parts(*columns: Tensor) -> list[Part]:
            u, y = logits(*columns[:-1]).double().clamp(-REACH, REACH), columns[-1].double()
            p = torch.sigmoid(u) if several else torch.softmax(u, dim=1)
            return bound.apply([DensePart(y - middle), DensePart(_weight(y, public) * (p - middle))])

        return Query(LABEL, bound.promise([Partition(LABELS, (units,)), Partition(BELIEVED, (units,))]), parts)

    def _offsets(self, answer: Answer, n: int, several: bool, weights: Tensor | None) -> tuple[float, ...]:
        """Post-processing: of any finite numbers the offsets are finite."""
        labels, believed = tamed(answer[LABELS].cpu().double()), tamed(answer[BELIEVED].cpu().double())
        units = len(labels)
        middle = _middle(units, several)
        noise = self.noise_multiplier * math.sqrt(2.0) * _longest(units, several) / n
        if not several:  # both sum to zero, and so should the noise
            labels, believed = labels - labels.mean(), believed - believed.mean()
            noise *= math.sqrt(1 - 1 / units)
        shape = 2 if several else units
        rates = _likely(labels + middle, torch.full_like(labels, noise), n, shape)
        on, whole, largest = _weighted(rates, several, weights)
        share = _likely(believed * largest / whole + middle, noise * largest / whole, n, shape)
        if several:
            found = torch.logit(on / whole, eps=1e-9) - torch.logit(share, eps=1e-9)
            return tuple(found.tolist())
        found = (on / whole).clamp(min=1e-9).log() - share.clamp(min=1e-9).log()
        return tuple((found[1:] - found[0]).tolist())


def _middle(units: int, several: bool) -> float:
    if several:
        return 0.5
    return 1 / units


def _longest(units: int, several: bool) -> float:
    """The largest distance of a row's labels, or probabilities, from the middle."""
    if several:
        return math.sqrt(units) / 2
    return math.sqrt(1 - 1 / units)


def _weight(y: Tensor, weights: Tensor | None) -> Tensor:
    """What a row's probabilities weigh: by its own class, (rows, 1), or for each label whether it is on."""
    if weights is None:
        return torch.ones_like(y[:, :1])
    weights = weights.to(y.device)
    if weights.dim() == 2:
        return weights[:, 0] + (weights[:, 1] - weights[:, 0]) * y
    return (y * weights).sum(dim=1, keepdim=True)


def _weighted(rates: Tensor, several: bool, weights: Tensor | None) -> tuple[Tensor, Tensor, float]:
    """For every class or label the weight of its rows, that of all rows, and the largest weight."""
    if weights is None:
        return rates, torch.ones_like(rates), 1.0
    weights = weights.cpu().double()
    if several:
        on = weights[:, 1] * rates
        whole = on + weights[:, 0] * (1 - rates)
    else:
        on = weights * rates
        whole = on.sum().expand_as(on)
    return on, whole.clamp(min=1e-9), float(weights.max())


def _likely(rates: Tensor, noise: Tensor, n: int, shape: int) -> Tensor:
    """The posterior means of rates that were measured with such noise, under Jeffreys' prior of ``shape`` classes.

    With p = sin^2 t the prior's density in t is cos(t)^(shape - 2). Half a row is added to the noise, so that no rate
    is taken for zero.
    """
    t = (torch.arange(FINE, dtype=torch.float64) + 0.5) * (math.pi / 2 / FINE)
    prior = (shape - 2) * torch.cos(t).log()
    away = (rates[:, None] - torch.sin(t).square()) / (noise.square() + (0.5 / n) ** 2).sqrt()[:, None]
    return torch.softmax(prior - away.square() / 2, dim=1) @ torch.sin(t).square()
