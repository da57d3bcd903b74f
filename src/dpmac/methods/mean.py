"""The mean of all rows, and how far from it they lie, from one small private release: where a table's middle is.

Every row is moved by a public ``centre``, divided by a public ``radius`` and clipped to norm 1, by itself. What is
released is the sum of these rows and the sum of their squared lengths, each at a scale that makes both together one
unsampled Gaussian mechanism. A mean is cheap: its noise falls with n, so a small share of a budget is enough for it,
and what comes after can look at rows about their own middle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.extensions.provenance import PUBLIC, Origin
from dpmac.mac.released import tamed
from dpmac.methods.tables import private_table, public_ball
from dpmac.nets.feature_maps import Affine, Ball
from dpmac.privacy import DensePart, JointClip, Ledger, Mechanism, Part, Partition, PrivateRows, Query, release
from dpmac.privacy.accounting import check_multiplier
from dpmac.randomness import NoiseSource

LABEL = "mean"
SUM, SQUARES = "rows", "squared lengths"
SHARE = 0.1  # of the release, for the squared lengths
SCALES = (1 / math.sqrt(1 - SHARE), 1 / math.sqrt(SHARE))
MIN_SPREAD = 0.01  # of the radius: a spread that noise makes smaller is no spread


@dataclass(frozen=True, eq=False)
class DPMean:
    """What to release, fixed before a row is touched. Everything here must be public.

    ``radius`` is the distance from ``centre`` beyond which a row is pulled back; None takes sqrt(d), which no row
    exceeds whose features lie within 1 of the centre. ``noise_multiplier`` 0 gives the exact mean and no privacy.
    """

    noise_multiplier: float
    centre: float | Tensor = 0.0
    radius: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))
        if self.radius is not None:
            number("radius", self.radius, "give a public number above 0, or None for sqrt(d)", low=1e-30, high=1e30)

    def mechanism(self) -> Mechanism:
        """What :meth:`fit` will cost."""
        return Mechanism(self.noise_multiplier, 1.0, 1, LABEL)

    def fit(self, x: Tensor | PrivateRows, source: NoiseSource, ledger: Ledger) -> ReleasedMean:
        """Release the mean of ``x`` (n, d) and the rows' spread about it. Adds exactly one event to ``ledger``.

        Bad arguments raise :class:`ArgumentError` and spend nothing. The noise comes from ``source.spawn("mean")``.
        """
        table = private_table("x", x)
        ball = self._ball(table)
        answer = release(
            table.everything(),
            self.query(ball),
            noise_multiplier=self.noise_multiplier,
            source=source.spawn(LABEL),
            ledger=ledger,
            divisor=table.n,
        )
        moved, squares = tamed(answer[SUM]), float(tamed(answer[SQUARES][0]))
        noise = len(moved) * (self.noise_multiplier * SCALES[0] / table.n) ** 2  # expected, in the mean's square
        least = 1e-60
        if noise:
            least = MIN_SPREAD**2
        spread = math.sqrt(max(squares - float(moved.square().sum()) + noise, least))
        inside = moved / max(float(moved.norm()), 1.0)  # every row is within 1 of the centre, and so is their mean
        known = Origin.of(ledger, table.origin)
        return ReleasedMean(ball.centre + ball.radius * inside, ball.radius * min(spread, 1.0), known)

    def query(self, ball: Ball) -> Query:
        """The sums of rows brought into the ball, and of their squared lengths."""
        bound = JointClip(SCALES)

        def parts(rows: Tensor) -> list[Part]:
            inside = ball(rows)
            return bound.apply([DensePart(inside), DensePart(inside.square().sum(dim=1, keepdim=True))])

        return Query(LABEL, bound.promise([Partition(SUM, (len(ball.centre),)), Partition(SQUARES, (1,))]), parts)

    def _ball(self, table: PrivateRows) -> Ball:
        if len(table.shapes[0]) != 1:
            raise ArgumentError("x", f"rows of shape {table.shapes[0]}", "give one flat row per example")
        (d,) = table.shapes[0]
        return public_ball(self.centre, self.radius, d).to(table.device)


@dataclass(frozen=True, eq=False)
class ReleasedMean:
    """``mean`` (d,) and ``spread``, the root mean square distance of rows from it. Public; using them costs nothing."""

    mean: Tensor
    spread: float
    origin: Origin = PUBLIC

    def feature_map(self) -> Affine:
        """Rows less the mean, for a model."""
        made = Affine(self.mean.cpu()).to(self.mean.device)
        made.origin = self.origin
        return made
