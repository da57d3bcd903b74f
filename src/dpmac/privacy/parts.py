"""Per-example parts: what each example contributes to one partition of a release, before anything is summed.

A part need not build a matrix per example. It keeps the factors where it can (an outer product is two vectors),
computes the norm of every example's share, can scale every share by its own factor, and can be summed. Summing turns
private numbers into an aggregate, so only :mod:`dpmac.privacy.gaussian_release` may call :meth:`Part.total`; a test
enforces this. The types of parts are kernels: ``outer``, ``dense``, ``gram``, ``positions``, ``built``, ``tokens``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

# Shares are clipped to (1 - SLACK) of their promise, so that the rounding of a double-precision sum stays within the
# promise. release() sums blocks of at most 8192 rows, rounds each block's sum to a grid, and adds those exactly
# (dpmac.privacy.noise). Two neighbouring tables differ in one block of m rows. The computed sums of this block differ
# by at most the exact difference plus 2 u m (m + 2) scales, u = 2**-53: adding m rows of length at most 1 is off by at
# most m u times m, and two more roundings follow on the way to the grid. For 8192 rows that is 1.5e-8, whatever the
# size of the table. The release checks every row against KEPT, which leaves a margin 600 times as large. The gap
# between KEPT and 1 - SLACK covers the rounding of the bounds themselves: a norm of d numbers, a factor and their
# product are off by (d + 8) u, which is below 1e-6 for d up to 10^9.
SLACK = 1e-5
KEPT = 1.0 - 0.9 * SLACK


class Part(Protocol):
    """The shares of one partition for a micro-batch, one per example."""

    @property
    def rows(self) -> int:
        """Number of examples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one share and of the sum."""

    def norms(self) -> Tensor:
        """Euclidean (Frobenius) norm of each share, float64; not finite if the share is not."""

    def scaled(self, factors: Tensor) -> Part:
        """Each share times its own factor; a factor of 0 gives exactly 0, even for a share that is not finite."""

    @property
    def single(self) -> bool:
        """Whether the sum is computed in single precision, or the norms leave the margin for that."""

    def doubled(self) -> Part:
        """The same shares, summed in double precision."""

    def explicit(self) -> Tensor:
        """All shares, (rows, *shape), float64: slow, for :mod:`dpmac.privacy.reference` and tests."""

    def total(self, spots_per_place: int = 1, /) -> Tensor:
        """The sum of the shares: float64, or float32 if nothing was accumulated in more. Only ``release`` calls this.

        The ``spots_per_place`` neighbouring rows of one person are always in the same matrix product.
        """


def joint_norms(parts: Sequence[Part], scales: Sequence[float]) -> Tensor:
    """For each example, the norm of the concatenation of its shares, where share i is divided by ``scales[i]``."""
    return functools.reduce(torch.hypot, [part.norms() / scale for part, scale in zip(parts, scales, strict=True)])
