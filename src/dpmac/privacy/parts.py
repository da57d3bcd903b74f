"""Per-example parts: what each example contributes to one partition of a release, before anything is summed.

A part need not build a matrix per example. It keeps the factors (an outer product is two vectors), knows the norm of
every example's share from them, can scale every share by its own factor, and can be summed. Summing turns private
numbers into an aggregate, so only :mod:`dpmac.privacy.gaussian_release` may call :meth:`Part.total`, which a test sees
to. The kinds of parts are kernels: :mod:`dpmac.kernels.outer`, ``dense``, ``gram``, ``positions``, ``built`` and
``tokens``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

# Shares are bounded to (1 - SLACK) of their promise, so that the rounding of a double-precision sum stays inside the
# promise. release() sums blocks of at most 8192 rows, puts each block's sum on a grid, and adds those exactly
# (dpmac.privacy.noise). Two neighbouring tables differ in one block, whose sums then differ by at most the exact
# difference plus 2 u m (m + 2) scales, u = 2**-53, for its m rows: each is off by m u times the lengths in it, m at
# most, where it is added up, and by two roundings more on its way to the grid. That is 1.5e-8 for 8192 rows, whatever
# the table has; the release checks every row against KEPT, which leaves 600 times as much. What is between KEPT and
# 1 - SLACK is for the rounding of the bounds themselves: a norm of d numbers, a factor and their product are off by
# (d + 8) u, below 1e-6 for d up to 10^9.
SLACK = 1e-5
KEPT = 1.0 - 0.9 * SLACK


class Part(Protocol):
    """One partition's shares of a micro-batch, one per example."""

    @property
    def rows(self) -> int:
        """Number of examples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one share, and of the sum."""

    def norms(self) -> Tensor:
        """Euclidean (Frobenius) norm of each share, float64; not finite where a share is not."""

    def scaled(self, factors: Tensor) -> Part:
        """Each share times its own factor; a factor of 0 gives exactly 0, even for a share that is not finite."""

    @property
    def single(self) -> bool:
        """Whether the sum is made in single precision, or its norms leave room as if it were."""

    def doubled(self) -> Part:
        """The same shares, to be summed in double precision."""

    def explicit(self) -> Tensor:
        """Every share by itself, (rows, *shape), float64: slow, for :mod:`dpmac.privacy.reference` and tests."""

    def total(self, together: int = 1) -> Tensor:
        """The sum of the shares: float64, or float32 where nothing was added up in more. For ``release`` alone.

        So many neighbouring rows as belong ``together``, one person's, are in one product.
        """


def joint_norms(parts: Sequence[Part], scales: Sequence[float]) -> Tensor:
    """Each example's norm of the concatenation of all its shares, share i divided by ``scales[i]``."""
    return functools.reduce(torch.hypot, [part.norms() / scale for part, scale in zip(parts, scales, strict=True)])
