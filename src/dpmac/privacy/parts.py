"""Parts: the shares of all rows of a block in one partition of a release, before anything is summed.

A part need not build the share of every row. It keeps the factors where it can (an outer product is two vectors),
computes the norm of every share, can scale every share by its own factor, and can be summed. Summing turns private
numbers into an aggregate, so only :mod:`dpmac.privacy.gaussian_release` may call :meth:`Part.total`; a test enforces
this. The types of parts are kernels: ``outer``, ``dense``, ``gram``, ``positions``, ``built``, ``tokens``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

# Three lengths of scaled shares: bounds clip to 1 - SLACK, the release accepts norms up to KEPT, the promise is 1.
#
# From KEPT to 1, 9e-6 covers rounding in double precision, u = 2**-53. (1) The sum of a block: a release sums blocks of
# at most 8192 rows and adds their sums exactly (dpmac.privacy.noise), so two neighbouring tables differ in one block of
# m rows. Its computed sums differ by at most the exact difference plus 2 u m (m + 2): adding m rows of length at most 1
# is off by m u times m, and two more roundings follow on the way to the grid. For 8192 rows that is 1.5e-8, whatever
# the size of the table. (2) The norms: K1 allows (d + 32) u for d numbers, and joint_norms adds a few u for each
# partition: below 2e-7 for up to 10^9 numbers. From 1 - SLACK to KEPT, 1e-6 covers the rounding of the bounds.
SLACK = 1e-5
KEPT = 1.0 - 0.9 * SLACK


class Part(Protocol):
    """The shares of one partition for a block, one per row."""

    @property
    def rows(self) -> int:
        """Number of rows in the block."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one share and of the sum."""

    def norms(self) -> Tensor:
        """Euclidean (Frobenius) norm of each share, float64; not finite if the share is not, which is refused."""

    def scaled(self, factors: Tensor) -> Part:
        """Each share times its own factor; a factor of 0 gives exactly 0, even for a share that is not finite."""

    @property
    def single(self) -> bool:
        """Whether the sum may be computed in single precision: the norms then include the margin for its rounding."""

    def doubled(self) -> Part:
        """The same shares, summed in double precision."""

    def explicit(self) -> Tensor:
        """All shares, (rows, *shape), float64: slow, for :mod:`dpmac.privacy.reference` and tests."""

    def total(self, spots_per_place: int = 1, /) -> Tensor:
        """The sum of the shares: float64, or float32 if its products were added in single precision only.

        Only ``release`` calls this. A person's ``spots_per_place`` neighbouring rows are always in the same product.
        """


def joint_norms(parts: Sequence[Part], scales: Sequence[float]) -> Tensor:
    """For each row, the norm of the concatenation of its shares, where share i is divided by ``scales[i]``."""
    return functools.reduce(torch.hypot, [part.norms() / scale for part, scale in zip(parts, scales, strict=True)])
