"""What follows from counts of label by score bin: AUROC, average precision, rates at thresholds.

The bins are fixed beforehand, evenly in log-odds where scores usually are (:data:`EDGES`), with an edge at 1/2. Two
rows in one bin are compared by what is known of it: within a bin the positives' share rises with the score, by the
slope that the bins themselves show, so that a positive is above a negative a little more often than not. Without that
an area would be too small by about a hundredth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LOGITS = np.array([-5.5, -4.2, -3.2, -2.4, -1.7, -1.1, -0.55, 0.0, 0.55, 1.1, 1.7, 2.4, 3.2, 4.2, 5.5])
EDGES = 1.0 / (1.0 + np.exp(-LOGITS))
BINS = len(LOGITS) + 1
HALF = 8  # from this bin on the positive class is likelier
WIDTHS = np.array([1.5, *np.diff(LOGITS), 1.5])  # in log-odds; the outermost are as wide as scores usually spread
MIDDLES = np.array([LOGITS[0] - 0.6, *(LOGITS[:-1] + LOGITS[1:]) / 2, LOGITS[-1] + 0.6])
_PRIOR = 0.3  # how much a slope of 1, that of a calibrated model, weighs: as so many rows at a distance of 1
_STEPS = (np.arange(16) + 0.5) / 16


def slope(cells: Array) -> Array:
    """By how much log-odds of the positive class rise with those that the model says (...): 1 if it is calibrated.

    One step of a logistic regression on the bins' middles, from slope 1 and the best offset.
    """
    both = cells.sum(axis=-2)
    offset = np.zeros(cells.shape[:-2])
    for _ in range(8):
        p = _logistic(MIDDLES + offset[..., None])
        curvature = (both * p * (1 - p)).sum(axis=-1) + 1e-9
        offset = offset + ((cells[..., 1, :] - both * p).sum(axis=-1) / curvature).clip(-2, 2)
    p = _logistic(MIDDLES + offset[..., None])
    weight = both * p * (1 - p)
    mean = (weight * MIDDLES).sum(axis=-1) / (weight.sum(axis=-1) + 1e-9)
    far = MIDDLES - mean[..., None]
    rise = ((cells[..., 1, :] - both * p) * far).sum(axis=-1) / ((weight * far**2).sum(axis=-1) + 10 * _PRIOR)
    return np.asarray((1.0 + rise).clip(0.0, 2.5))


def auroc(cells: Array) -> Array:
    """The chance that a positive has a higher score than a negative."""
    negative, positive = cells[..., 0, :], cells[..., 1, :]
    below = np.cumsum(negative, axis=-1) - negative
    within = 0.5 + (slope(cells)[..., None] * WIDTHS / 12.0).clip(0.0, 0.2)
    won = (positive * (below + within * negative)).sum(axis=-1)
    return np.asarray(won / (positive.sum(axis=-1) * negative.sum(axis=-1)))


def average_precision(cells: Array) -> Array:
    """The mean over positives of the precision at their own score: the area below precision over sensitivity."""
    negative, positive = cells[..., 0, ::-1, None], cells[..., 1, ::-1, None]
    bend = (slope(cells)[..., None] * WIDTHS[::-1] / 4.0).clip(0.0, 0.9)[..., None]  # within a bin, as in auroc
    curve = bend * _STEPS * (1.0 - _STEPS)
    true = (np.cumsum(positive, axis=-2) - positive + positive * (_STEPS + curve)).clip(1e-9, None)
    false = np.cumsum(negative, axis=-2) - negative + negative * (_STEPS - curve)
    precise = (true / (true + false).clip(1e-9, None)).clip(0.0, 1.0)
    each = (precise * (1.0 + bend * (1.0 - 2.0 * _STEPS))).mean(axis=-1)
    return np.asarray((positive[..., 0] * each).sum(axis=-1) / positive.sum(axis=(-1, -2)))


def accuracy(cells: Array) -> Array:
    """The share of rows whose likelier class is the true one."""
    right = cells[..., 0, :HALF].sum(axis=-1) + cells[..., 1, HALF:].sum(axis=-1)
    return np.asarray(right / cells.sum(axis=(-1, -2)))


def base_rate(cells: Array) -> Array:
    return np.asarray(cells[..., 1, :].sum(axis=-1) / cells.sum(axis=(-1, -2)))


def sensitivity(cells: Array, first: int) -> Array:
    """Of the positives those in bin ``first`` and above."""
    return np.asarray(cells[..., 1, first:].sum(axis=-1) / cells[..., 1, :].sum(axis=-1))


def specificity(cells: Array, first: int) -> Array:
    """Of the negatives those below bin ``first``."""
    return np.asarray(cells[..., 0, :first].sum(axis=-1) / cells[..., 0, :].sum(axis=-1))


def precision(cells: Array, first: int) -> Array:
    """Of the rows in bin ``first`` and above the positive ones."""
    return np.asarray(cells[..., 1, first:].sum(axis=-1) / (cells[..., first:].sum(axis=(-1, -2)) + 1e-9))


def called(cells: Array, first: int) -> Array:
    """The share of rows in bin ``first`` and above."""
    return np.asarray(cells[..., first:].sum(axis=(-1, -2)) / cells.sum(axis=(-1, -2)))


def _logistic(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))
