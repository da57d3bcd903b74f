"""How the noise of one release is divided among its partitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpmac.checks import ArgumentError, number
from dpmac.privacy.partition import Partition


def per_layer(name: str, value: float | Sequence[float], count: int) -> list[float]:
    """One positive finite number per layer, from a single number or a list of the right length."""
    if not isinstance(value, Sequence):
        value = [value] * count
    values = list(value)
    if len(values) != count:
        raise ArgumentError(name, value, f"give one number, or one for each of the {count} layers")
    fix = "give a finite number above 0 (1e-30 at least)"
    return [number(name, entry, fix, low=1e-30, high=1e30) for entry in values]


Allocation = Callable[[Sequence[float], Sequence[Partition]], list[float]]  # sensitivities and partitions to scales


@dataclass(frozen=True)
class EqualShares:
    """The paper's rule: scale_i = sqrt(MK) D_i, where MK is the number of partitions. All get the same budget."""

    def __call__(self, sensitivities: Sequence[float], partitions: Sequence[Partition]) -> list[float]:  # noqa: ARG002
        root = math.sqrt(len(sensitivities))
        return [root * d for d in sensitivities]


@dataclass(frozen=True)
class LeastEnergy:
    """Scales that minimise the weighted noise energy sum_i c_i scale_i^2 under sum_i (D_i / scale_i)^2 = 1.

    The optimum is scale_i^2 = (D_i / sqrt(c_i)) sum_j D_j sqrt(c_j). ``costs`` are the c_i; None takes the number of
    coordinates of each partition, which minimises the total squared norm of the noise.
    """

    costs: tuple[float, ...] | None = None

    def __call__(self, sensitivities: Sequence[float], partitions: Sequence[Partition]) -> list[float]:
        costs = self.costs
        if costs is None:
            costs = tuple(float(math.prod(b.shape)) for b in partitions)
        roots = [math.sqrt(c) for c in per_layer("costs", costs, len(partitions))]
        total = sum(d * root for d, root in zip(sensitivities, roots, strict=True))
        return [math.sqrt(d / root * total) for d, root in zip(sensitivities, roots, strict=True)]


def allocated(allocation: Allocation, sensitivities: Sequence[float], partitions: Sequence[Partition]) -> list[float]:
    """The scales of ``allocation``, after a check that the joint sensitivity is at most 1."""
    scales = allocation(sensitivities, partitions)
    total = sum((d / s) ** 2 for d, s in zip(sensitivities, scales, strict=True))
    if not total <= 1.0 + 1e-9:
        fix = f"its scales give sum (D_i / scale_i)^2 = {total:.6g}: it must be at most 1"
        raise ArgumentError("allocation", allocation, fix)
    return scales


def promised(partitions: Sequence[Partition], scales: Sequence[float]) -> tuple[Partition, ...]:
    """Each partition with its scale."""
    return tuple(p.promised(scale) for p, scale in zip(partitions, scales, strict=True))
