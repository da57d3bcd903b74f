"""Defaults for tables that are texts for the most part (:class:`dpmac.tables.Text`), by public numbers alone.

A text's inputs are hundreds of sums over its words, whose directions are of very unlike importance, as any drawn texts
show. So whitening pays with far fewer rows than in other tables, and a linear model is enough: the sums hold nonlinear
functions of words already. Chosen on held-out training rows of film snippets (docs/texts.md).
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpmac.planning.plan import Plan
from dpmac.training.defaults import POWER, STEPS, Defaults, defaults_for

SHARE = 0.5  # of a row's inputs from which on they are a text's for the most part
MIN_ROWS = 500  # the fewest that were tried
RATE = 0.0015  # of a regressor, whose whitened inputs are several times as long as a table's


def text_defaults(found: Defaults, plan: Plan, *, regression: bool, free: bool) -> Defaults:
    """``found``, whitened, and linear if the layers are ``free``; unless it is whitened anyhow, or of too few rows."""
    if found.whitening is not None or plan.n < MIN_ROWS:
        return found
    if free:
        found = defaults_for(plan, regression=regression, hidden=())
    if regression and not found.hidden:
        fewer = min(3.0, math.sqrt(STEPS / min(plan.steps, STEPS)))  # as of the other rates
        found = replace(found, learning_rate=RATE * fewer)
    return replace(found, whitening=POWER)
