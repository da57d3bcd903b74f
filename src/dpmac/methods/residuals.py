"""How far off a regression is: its residual's standard deviation, from one small private release.

A sum of squares needs noise as large as the largest square that a row could have, (range)^2, and residuals are far
smaller than their range. So squares are summed by shells: in shell b are residuals from 2^-b down to 2^-(b+1) of the
range, and a row adds (residual / 2^-b)^2, at most 1, to its own shell alone. All shells together are one release of
sensitivity 1, whatever the residuals, and a shell's noise counts for as little as the shell is small.

What is read off it begins at the outermost shell that stands out of the noise. Beyond it, a shell counts with what the
noisy sum says, but for at least nothing and at most what a Laplace distribution of the same scale would have there: so
noise adds little, and a usual tail is not lost. Without noise the result is the root of the mean square.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.methods.one_release import OneRelease, Outputs
from dpmac.privacy import DensePart, Ledger, Part, Partition, PerLayerClip, PrivateRows, Query
from dpmac.randomness import NoiseSource

LABEL = "residual scale"
SQUARES = "squared residuals"
SHELLS = 11  # the innermost ends at zero, and begins at a thousandth of the range
EDGES = [2.0**-b for b in range(SHELLS)]  # their outer ends, in units of the range
STANDS_OUT = 2.5  # deviations of the noise
LEAST = 1e-3


@dataclass(frozen=True)
class ResidualScale(OneRelease):
    """One unsampled Gaussian release of the sums of squared residuals by shells, for targets and predictions within
    [-1, 1] (they are clipped to it)."""

    noise_multiplier: float
    label = LABEL

    def fit(
        self,
        rows: PrivateRows,
        outputs: Outputs,
        source: NoiseSource,
        ledger: Ledger,
        micro_batch: int | None = None,
    ) -> float:
        """The standard deviation, on the scale of the targets; at least a thousandth, and at most 2, their range.

        ``outputs`` gets a block of all columns but the last, which holds the targets.
        """
        answer = self._released(rows, outputs, self.query(outputs), source, ledger, micro_batch)
        square = mean_square((answer[SQUARES] / rows.n).tolist(), self.noise_multiplier / rows.n)
        return max(LEAST, 2.0 * math.sqrt(min(square, 1.0)))

    def query(self, outputs: Outputs) -> Query:
        bound = PerLayerClip(1.0)

        def parts(*columns: Tensor) -> list[Part]:
            off = (outputs(*columns[:-1]).double().clamp(-1, 1) - columns[-1].double().clamp(-1, 1)) / 2
            return bound.apply([DensePart(shells(off.square().mean(dim=1, keepdim=True)))])

        return Query(LABEL, bound.promise([Partition(SQUARES, (SHELLS,))]), parts)


def shells(square: Tensor) -> Tensor:
    """What every row adds to every shell (rows, SHELLS), of its ``square`` (rows, 1) from 0 to 1, in units of the
    squared range: a number from 0 to 1 in its own shell, and nothing in the others."""
    between = torch.tensor([edge**2 for edge in EDGES[:0:-1]], dtype=torch.float64, device=square.device)
    shell = SHELLS - 1 - torch.bucketize(square, between)
    inside = (shell == torch.arange(SHELLS, device=square.device)).double()
    return inside * square * 4.0 ** shell.double()


def mean_square(sums: Sequence[float], noise: float) -> float:
    """The mean square in units of the range, from every shell's noisy sum divided by the rows, of deviation ``noise``.

    Of any finite numbers it is finite, and at least 0.
    """
    clear = [b for b in range(SHELLS) if sums[b] > STANDS_OUT * noise]
    first = max(range(SHELLS), key=lambda b: sums[b])  # if nothing stands out
    if clear:
        first = clear[0]
    inside = sum(EDGES[b] ** 2 * sums[b] for b in range(first, SHELLS))
    least = (EDGES[first] / 2) ** 2 * STANDS_OUT * noise  # inner shells' noise cannot take away what stood out
    square = inside = max(inside, least, 0.0)
    for _ in range(2):  # the scale follows from the tail, and the tail from the scale
        scale = math.sqrt(square / 2)
        tail = [min(max(sums[b], 0.0), _laplace(EDGES[b], scale)) * EDGES[b] ** 2 for b in range(first)]
        square = inside + sum(tail)
    return square


def _laplace(edge: float, scale: float) -> float:
    """What a Laplace distribution of that scale has in the shell below ``edge``: the mean of (residual / edge)^2."""
    if scale < 1e-150:
        return 0.0

    def below(ratio: float) -> float:
        """The integral of x^2 e^-x up to ``ratio``."""
        if ratio > 700:
            return 2.0
        return 2.0 - math.exp(-ratio) * (ratio**2 + 2 * ratio + 2)

    return (scale / edge) ** 2 * (below(edge / scale) - below(edge / scale / 2))
