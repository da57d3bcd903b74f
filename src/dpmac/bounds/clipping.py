"""Bounds on what one row may contribute to a release.

A release covers several partitions (the layers). A bound promises, for every row x and its shares P_1 .. P_K,

    sum_i ||P_i(x)||^2 / scale_i^2  <=  1  (minus a margin for rounding)                             (the promise)

so the concatenation of all partitions, each divided by its scale, has sensitivity 1 under blanking or filling in
one row, and Gaussian noise of standard deviation ``noise_multiplier * scale_i`` on partition i is one Gaussian
mechanism of that multiplier. Every rule of the paper is a choice of scales: per-layer thresholds Theta_i take
scale_i = sqrt(K) Theta_i (the paper's sqrt(MK)), a joint bound takes scale_i = kappa_i with no penalty for K.

A bound multiplies shares that are not finite by 0, which makes them exactly zero: the release would refuse them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from dpmac.bounds.allocation import Allocation, EqualShares, allocated, per_layer, promised
from dpmac.checks import ArgumentError, number
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import SLACK, Part, joint_norms


class Bound(Protocol):
    """Makes every example keep the promise, by a rule that depends on that example only."""

    def promise(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        """The partitions with their scales, in order; a bound that learns may add partitions under its own names.

        Depends on public information only: shapes, proven sensitivities, thresholds learned from releases.
        """

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        """The parts, each example scaled so that it keeps the promise (and those of added partitions, if any)."""

    def learned(self, answer: Mapping[str, Tensor]) -> Bound:
        """The bound for the next step, from the answer to the partitions that it added. Post-processing."""


class Fixed:
    """A bound that learns nothing."""

    def learned(self, answer: Mapping[str, Tensor]) -> Any:  # noqa: ARG002 - nothing was added
        return self


def clip_factors(norms: Tensor, threshold: float) -> Tensor:
    """min(1, threshold / norm), reduced by the rounding slack; 0 if the norm is not finite."""
    allowed = (1.0 - SLACK) * threshold
    factors = torch.clamp(norms, min=1e-300).reciprocal_().mul_(allowed).clamp_(max=1.0)
    # below 1e-300 a factor has lost precision; an infinite norm gives 0, and NaN fails the comparison
    return torch.where(factors > 1e-300, factors, 0.0)


def _length(value: float | tuple[float, ...]) -> int:
    if isinstance(value, tuple):
        return len(value)
    return 1


@dataclass(frozen=True)
class PerLayerClip(Fixed):
    """The paper's rule: ||P_i(n)||_F <= threshold_i in every partition; by default scale_i = sqrt(K) threshold_i.

    ``threshold`` is one number for all partitions or one for each; ``allocation`` divides the noise among them.
    """

    threshold: float | tuple[float, ...]
    allocation: Allocation = field(default_factory=EqualShares)

    def __post_init__(self) -> None:
        per_layer("threshold", self.threshold, _length(self.threshold))

    def promise(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        thresholds = per_layer("threshold", self.threshold, len(partitions))
        return promised(partitions, allocated(self.allocation, thresholds, partitions))

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        thresholds = per_layer("threshold", self.threshold, len(parts))
        return [part.scaled(clip_factors(part.norms(), t)) for part, t in zip(parts, thresholds, strict=True)]


@dataclass(frozen=True)
class Normalise(Fixed):
    """Automatic clipping: P_i(n) / (||P_i(n)|| + gamma), so every share has norm below 1.

    There is no threshold to tune, and layers whose slopes differ by orders of magnitude have equal weight.
    ``gamma`` > 0 prevents shares that are nearly zero from being scaled up to norm one.
    """

    gamma: float = 0.01
    allocation: Allocation = field(default_factory=EqualShares)

    def __post_init__(self) -> None:
        number("gamma", self.gamma, "give a finite number above 0", low=1e-30, high=1e30)

    def promise(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        return PerLayerClip(1.0, self.allocation).promise(partitions)

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        return [part.scaled(self._factors(part.norms())) for part in parts]

    def _factors(self, norms: Tensor) -> Tensor:
        return torch.where(torch.isfinite(norms), (1.0 - SLACK) / (norms + self.gamma), 0.0)


@dataclass(frozen=True)
class JointClip(Fixed):
    """One factor for all partitions: sum_i ||P_i(n)||^2 / kappa_i^2 <= 1; scale_i = kappa_i.

    With kappa_i = sqrt(K) Theta_i it has the same noise as :class:`PerLayerClip` at Theta_i and never clips more. An
    example with a share that is not finite contributes nothing at all.
    """

    kappa: float | tuple[float, ...]

    def __post_init__(self) -> None:
        per_layer("kappa", self.kappa, _length(self.kappa))

    def promise(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        return promised(partitions, per_layer("kappa", self.kappa, len(partitions)))

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        kappas = per_layer("kappa", self.kappa, len(parts))
        factors = clip_factors(joint_norms(parts, kappas), 1.0)
        return [part.scaled(factors) for part in parts]


@dataclass(frozen=True)
class Analytic(Fixed):
    """No clipping: the expansion's own proven sensitivities (see :mod:`dpmac.analytic`).

    Needs an expansion that projects and states them, :class:`dpmac.analytic.Projected`. They depend on the weights,
    which are public, so the scales change at every step. If a proof were wrong, the release's check would stop the run.
    """

    allocation: Allocation = field(default_factory=EqualShares)

    def promise(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        known = [p.sensitivity for p in partitions if p.sensitivity is not None]
        if len(known) != len(partitions):
            fix = "its expansion states no sensitivities: use Projected(radius), or a bound that clips"
            raise ArgumentError("bound", self, fix)
        usable = [max(d, 1e-12) for d in known]  # exactly 0 if no unit is ever active
        return promised(partitions, allocated(self.allocation, usable, partitions))

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        return [part.scaled(torch.isfinite(part.norms()).double()) for part in parts]


@dataclass(frozen=True)
class Unbounded(Fixed):
    """No bound: for training without privacy. A release with noise rejects it."""

    def promise(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        return promised(partitions, [math.inf] * len(partitions))

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        return list(parts)
