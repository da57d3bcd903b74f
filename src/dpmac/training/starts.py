"""Defaults of a network that begins from weights trained on drawn rows: small steps, for little is left to learn.

Chosen on held-out *training* rows of USPS (docs/autoencoders.md).
"""

from __future__ import annotations

from dpmac.planning.plan import Plan
from dpmac.training.defaults import Defaults

HIDDEN = (300, 100)  # the paper's, on either side of the code
RATE, THRESHOLD, AVERAGE = 3e-4, 1.0, 0.99


def started_defaults(own: Plan, hidden: tuple[int, ...] | None) -> Defaults:
    """For inputs in [-1, 1]; given ``hidden`` layers are kept."""
    del own
    return Defaults(hidden or HIDDEN, "elu", RATE, THRESHOLD, AVERAGE)
