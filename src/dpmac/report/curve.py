"""The whole privacy curve of a ledger: epsilon at every delta, each point an upper bound that holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpmac.privacy.accounting import MIN_DELTA, Mechanism, epsilon_of

DELTAS = tuple(10.0**-k for k in range(12, 0, -1))  # from MIN_DELTA on: a point a decade


def privacy_curve(mechanisms: Sequence[Mechanism], delta: float) -> list[tuple[float, float]]:
    """(delta, epsilon) along the curve, the stated ``delta`` among them; infinite without noise.

    Between two points the curve is at most the left one's epsilon, as epsilon only falls with delta.
    """
    deltas = sorted({max(one, MIN_DELTA) for one in (*DELTAS, delta)})
    found = [(one, epsilon_of(mechanisms, one)) for one in deltas]
    return [(one, epsilon) for one, epsilon in found if math.isfinite(epsilon)] or [(delta, math.inf)]
