"""Tests of all estimators hand them rows of a few numbers; a classifier of pictures gets pictures of these numbers."""

from __future__ import annotations

import numpy as np

from dpmac import DPMACImageClassifier
from dpmac.pictures import Scattering

QUICK = {
    "feature_map": Scattering(8, 8, side=8),
    "prior": None,
    "feature_range": None,
}  # no drawings: they take a minute
SIDE = 8


def quickly(kind):
    """Arguments with which a fit of ``kind`` takes no time, beyond those of others."""
    return QUICK if issubclass(kind, DPMACImageClassifier) else {}


def as_given(model, rows):
    """``rows`` as ``model`` takes them: a classifier of pictures gets stripes whose greys are the numbers."""
    if not isinstance(model, DPMACImageClassifier):
        return rows
    greys = np.clip(0.5 + np.asarray(rows) / 6, 0.0, 1.0)
    stripes = np.repeat(greys, SIDE * SIDE // greys.shape[1], axis=1)
    return stripes.reshape(len(greys), SIDE, SIDE)
