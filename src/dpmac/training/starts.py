"""Defaults of a network that begins from weights trained on drawn rows: small steps, for little is left to learn.

Chosen on held-out *training* rows of USPS (docs/autoencoders.md).
"""

from __future__ import annotations

import math

from dpmac.planning.plan import Plan
from dpmac.training.defaults import Defaults, clarity

HIDDEN = (300, 100)  # the paper's, on either side of the code
THRESHOLD, AVERAGE = 1.0, 0.99
WALK = 0.0047  # the way of a weight on pure noise, rate times sqrt(steps), at a clarity of CLEAR
CLEAR = 1_300.0
LONGEST_WALK = 0.03


def started_defaults(own: Plan, hidden: tuple[int, ...] | None) -> Defaults:
    """For inputs in [-1, 1]; given ``hidden`` layers are kept."""
    walk = min(WALK * math.sqrt(clarity(own) / CLEAR), LONGEST_WALK)
    return Defaults(hidden or HIDDEN, "elu", walk / math.sqrt(own.steps), THRESHOLD, AVERAGE)
