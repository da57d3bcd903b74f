"""Bounds: what one example may contribute to a release, at most.

A release covers several partitions (the layers). A bound promises, for every example n and its shares P_1 .. P_K,

    sum_i ||P_i(n)||^2 / scale_i^2  <=  1  (less a hair for rounding)                                (the promise)

so the concatenation of all partitions, each divided by its scale, has sensitivity 1 when one example is added or
removed, and Gaussian noise of standard deviation ``noise_multiplier * scale_i`` on partition i is one Gaussian
mechanism of that multiplier. Every rule of the paper is a choice of scales: per-layer thresholds Theta_i take
scale_i = sqrt(K) Theta_i (the paper's sqrt(MK)), a joint bound takes scale_i = kappa_i with no penalty for K.

Shares that are not finite become zero: they would otherwise reach every coordinate of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.privacy.parts import Part

# Shares are bounded to (1 - SLACK) of their promise, so that the rounding of a double-precision sum stays inside the
# promise. release() sums blocks of at most 4096 rows; two sums over neighbouring tables of m rows then differ by at
# most the exact difference plus 2 u m (4096 + m / 4096) scales, u = 2**-53: below 1e-5 for m up to five million.
SLACK = 1e-5


@dataclass(frozen=True)
class Block:
    """One named block of numbers that an expansion wants released: the shape of its sum, and what is known of it.

    ``sensitivity`` is a proven bound on every example's share, where there is one (see :class:`Analytic`).
    """

    name: str
    shape: tuple[int, ...]
    symmetric: bool = False
    sensitivity: float | None = None


@dataclass(frozen=True)
class Partition:
    """A block with the scale of its noise (see the promise above)."""

    name: str
    shape: tuple[int, ...]
    scale: float
    symmetric: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", float(self.scale))  # checked, written down and multiplied as one number


def blocks_of(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> list[Block]:
    """Plain blocks from names and shapes."""
    return [Block(name, tuple(shape)) for name, shape in zip(names, shapes, strict=True)]


def partitions_of(blocks: Sequence[Block], scales: Sequence[float]) -> tuple[Partition, ...]:
    return tuple(Partition(b.name, b.shape, scale, b.symmetric) for b, scale in zip(blocks, scales, strict=True))


class Bound(Protocol):
    """Makes every example keep the promise, by a rule that looks at that example alone."""

    def promise(self, blocks: Sequence[Block]) -> tuple[Partition, ...]:
        """The partitions with their scales, in order; a bound that learns may add some of its own at the end.

        Depends on public things only: shapes, proven sensitivities, thresholds learned from releases.
        """

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        """The parts, each example scaled so that it keeps the promise (and those of added partitions, if any)."""

    def learned(self, released: Sequence[Tensor]) -> Bound:
        """The bound to use next, given what was released for the added partitions. Post-processing."""


class Fixed:
    """A bound that learns nothing."""

    def learned(self, released: Sequence[Tensor]) -> Any:  # noqa: ARG002 - nothing was added, so nothing is released
        return self


def clip_factors(norms: Tensor, threshold: float) -> Tensor:
    """min(1, threshold / norm) with the rounding slack taken off; 0 where the norm is not finite."""
    allowed = (1.0 - SLACK) * threshold
    factors = torch.clamp(allowed / torch.clamp(norms, min=1e-300), max=1.0)
    usable = torch.isfinite(norms) & (factors > 1e-300)  # below that a factor has lost its digits
    return torch.where(usable, factors, 0.0)


def per_layer(name: str, value: float | Sequence[float], count: int) -> list[float]:
    """One positive finite number per layer, from a single number or a list of the right length."""
    values = list(value) if isinstance(value, Sequence) else [value] * count
    if len(values) != count:
        raise ArgumentError(name, value, f"give one number, or one for each of the {count} layers")
    fix = "give a finite number above 0 (1e-30 at least)"
    return [number(name, entry, fix, low=1e-30, high=1e30) for entry in values]


Allocation = Callable[[Sequence[float], Sequence[Block]], list[float]]  # sensitivities and blocks to scales


@dataclass(frozen=True)
class EqualShares:
    """The paper's rule: scale_i = sqrt(MK) D_i, with MK the number of partitions. Every one gets the same budget."""

    def __call__(self, sensitivities: Sequence[float], blocks: Sequence[Block]) -> list[float]:  # noqa: ARG002
        root = math.sqrt(len(sensitivities))
        return [root * d for d in sensitivities]


@dataclass(frozen=True)
class LeastEnergy:
    """Scales that minimise the weighted noise energy sum_i c_i scale_i^2 under sum_i (D_i / scale_i)^2 = 1.

    The optimum is scale_i^2 = (D_i / sqrt(c_i)) sum_j D_j sqrt(c_j). ``costs`` are the c_i; None takes the number of
    coordinates of each partition, which minimises the total squared norm of the noise.
    """

    costs: tuple[float, ...] | None = None

    def __call__(self, sensitivities: Sequence[float], blocks: Sequence[Block]) -> list[float]:
        sizes = tuple(float(math.prod(b.shape)) for b in blocks)
        roots = [math.sqrt(c) for c in per_layer("costs", sizes if self.costs is None else self.costs, len(blocks))]
        total = sum(d * root for d, root in zip(sensitivities, roots, strict=True))
        return [math.sqrt(d / root * total) for d, root in zip(sensitivities, roots, strict=True)]


def allocated(allocation: Allocation, sensitivities: Sequence[float], blocks: Sequence[Block]) -> list[float]:
    """The scales of ``allocation``, checked: together they must not promise more than sensitivity 1."""
    scales = allocation(sensitivities, blocks)
    total = sum((d / s) ** 2 for d, s in zip(sensitivities, scales, strict=True))
    if not total <= 1.0 + 1e-9:
        fix = f"its scales give sum (D_i / scale_i)^2 = {total:.6g}: it must be at most 1"
        raise ArgumentError("allocation", allocation, fix)
    return scales


@dataclass(frozen=True)
class PerLayerClip(Fixed):
    """The paper's rule: ||P_i(n)||_F <= threshold_i in every partition; by default scale_i = sqrt(K) threshold_i.

    ``threshold`` is one number for all partitions or one for each; ``allocation`` shares the noise among them.
    """

    threshold: float | tuple[float, ...]
    allocation: Allocation = EqualShares()

    def __post_init__(self) -> None:
        per_layer("threshold", self.threshold, len(self.threshold) if isinstance(self.threshold, tuple) else 1)

    def promise(self, blocks: Sequence[Block]) -> tuple[Partition, ...]:
        thresholds = per_layer("threshold", self.threshold, len(blocks))
        return partitions_of(blocks, allocated(self.allocation, thresholds, blocks))

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        thresholds = per_layer("threshold", self.threshold, len(parts))
        return [part.scaled(clip_factors(part.norms(), t)) for part, t in zip(parts, thresholds, strict=True)]


@dataclass(frozen=True)
class Normalise(Fixed):
    """Automatic clipping: P_i(n) / (||P_i(n)|| + gamma), so every share has norm below 1.

    No threshold to tune, and layers whose slopes differ by orders of magnitude are heard alike. ``gamma`` > 0 keeps a
    share that is nearly zero from being blown up to norm one.
    """

    gamma: float = 0.01
    allocation: Allocation = EqualShares()

    def __post_init__(self) -> None:
        number("gamma", self.gamma, "give a finite number above 0", low=1e-30, high=1e30)

    def promise(self, blocks: Sequence[Block]) -> tuple[Partition, ...]:
        return PerLayerClip(1.0, self.allocation).promise(blocks)

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        return [part.scaled(self._factors(part.norms())) for part in parts]

    def _factors(self, norms: Tensor) -> Tensor:
        return torch.where(torch.isfinite(norms), (1.0 - SLACK) / (norms + self.gamma), 0.0)


@dataclass(frozen=True)
class JointClip(Fixed):
    """One factor for all partitions together: sum_i ||P_i(n)||^2 / kappa_i^2 <= 1; scale_i = kappa_i.

    With kappa_i = sqrt(K) Theta_i it has the same noise as :class:`PerLayerClip` at Theta_i and never clips more. An
    example with any share that is not finite contributes nothing at all.
    """

    kappa: float | tuple[float, ...]

    def __post_init__(self) -> None:
        per_layer("kappa", self.kappa, len(self.kappa) if isinstance(self.kappa, tuple) else 1)

    def promise(self, blocks: Sequence[Block]) -> tuple[Partition, ...]:
        return partitions_of(blocks, per_layer("kappa", self.kappa, len(blocks)))

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        kappas = per_layer("kappa", self.kappa, len(parts))
        factors = clip_factors(joint_norms(parts, kappas), 1.0)
        return [part.scaled(factors) for part in parts]


@dataclass(frozen=True)
class Analytic(Fixed):
    """No clipping: the expansion's own proven sensitivities (see :mod:`dpmac.privacy.sensitivity`).

    Needs an expansion that projects and states them, :class:`dpmac.mac.expansion.Projected`. They follow the weights,
    which are public, so the scales are new at every step. Were a proof wrong, the release's check would stop the run.
    """

    allocation: Allocation = EqualShares()

    def promise(self, blocks: Sequence[Block]) -> tuple[Partition, ...]:
        known = [b.sensitivity for b in blocks if b.sensitivity is not None]
        if len(known) != len(blocks):
            fix = "its expansion states no sensitivities: use Projected(radius), or a bound that clips"
            raise ArgumentError("bound", self, fix)
        usable = [max(d, 1e-12) for d in known]  # exactly 0 where no unit is ever on
        return partitions_of(blocks, allocated(self.allocation, usable, blocks))

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        return [part.scaled(torch.isfinite(part.norms()).double()) for part in parts]


@dataclass(frozen=True)
class Unbounded(Fixed):
    """No bound at all: for training without privacy. A release refuses to put noise on it."""

    def promise(self, blocks: Sequence[Block]) -> tuple[Partition, ...]:
        return partitions_of(blocks, [math.inf] * len(blocks))

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        return list(parts)


def joint_norms(parts: Sequence[Part], scales: Sequence[float]) -> Tensor:
    """Each example's norm of the concatenation of all its shares, share i divided by ``scales[i]``."""
    stacked = torch.stack([part.norms() / scale for part, scale in zip(parts, scales, strict=True)])
    norms: Tensor = torch.linalg.vector_norm(stacked, dim=0)  # over the partitions, not over the examples
    return norms
