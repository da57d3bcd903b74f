"""How far off a regression is: its residual's standard deviation, from one small private release."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from dpmac.checks import number
from dpmac.extensions.provenance import check_origin
from dpmac.extensions.row_independence import ROWS, check_row_independence
from dpmac.planning.calibration import calibrate as least_noise
from dpmac.privacy import DensePart, Ledger, Mechanism, Part, Partition, PerLayerClip, PrivateRows, Query, release
from dpmac.privacy.accounting import check_multiplier
from dpmac.randomness import NoiseSource

LABEL = "residual scale"
SQUARES = "squared residuals"


@dataclass(frozen=True)
class ResidualScale:
    """One unsampled Gaussian release of the sum of squared residuals, each over 4 and so at most 1, for targets and
    predictions within [-1, 1] (they are clipped to it)."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))

    @classmethod
    def for_share(cls, share: float, epsilon: float, delta: float) -> ResidualScale:
        """That costs the ``share`` of one Gaussian mechanism of (epsilon, delta)."""
        number("share", share, "give a part of the budget above 0 and at most 1", low=1e-6, high=1.0)
        return cls(least_noise(lambda s: (Mechanism(s),), epsilon, delta) / math.sqrt(share))

    def mechanism(self) -> Mechanism:
        return Mechanism(self.noise_multiplier, 1.0, 1, LABEL)

    def fit(
        self,
        rows: PrivateRows,
        outputs: Callable[..., Tensor],
        source: NoiseSource,
        ledger: Ledger,
        micro_batch: int | None = None,
    ) -> float:
        """The standard deviation, on the scale of the targets; at least a thousandth, and at most 2, their range.

        ``outputs`` gets a block of all columns but the last, which holds the targets.
        """
        check_origin(ledger, outputs=outputs)
        check_row_independence("outputs", outputs, rows.blank(ROWS)[:-1], tokens=True)
        answer = release(
            rows.everything(),
            self.query(outputs),
            noise_multiplier=self.noise_multiplier,
            source=source,
            ledger=ledger,
            divisor=rows.n,
            micro_batch=micro_batch,
        )
        return 2.0 * math.sqrt(min(max(float(answer[SQUARES][0]), 2.5e-7), 1.0))

    def query(self, outputs: Callable[..., Tensor]) -> Query:
        bound = PerLayerClip(1.0)

        def parts(*columns: Tensor) -> list[Part]:
            off = (outputs(*columns[:-1]).double().clamp(-1, 1) - columns[-1].double().clamp(-1, 1)) / 2
            return bound.apply([DensePart(off.square().mean(dim=1, keepdim=True))])

        return Query(LABEL, bound.promise([Partition(SQUARES, (1,))]), parts)
