"""The figures of one fit on the test rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score, roc_auc_score

from .data import Array, Table

TINY = 1e-15  # a probability of 0 or 1 that was wrong costs log-loss 34.5


def log_loss(y: Array, p: Array) -> float:
    p = np.clip(p, TINY, 1 - TINY)
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log1p(-p)))


def calibration_error(y: Array, p: Array, bins: int = 15) -> float:
    """Expected calibration error over bins of equal mass; equal probabilities are never divided."""
    edges = np.unique(np.quantile(p, np.linspace(0, 1, bins + 1)[1:-1]))
    place = np.searchsorted(edges, p, side="right")
    gap = np.bincount(place, weights=p - y, minlength=len(edges) + 1)
    return float(np.abs(gap).sum() / len(y))


def figures(table: Table, predicted: Array) -> dict[str, float]:
    """Classes: AUROC, log-loss, calibration error. Numbers: R^2 and RMSE in the target's own unit.

    Predicted numbers are taken as they come, as in `spec/tables.md`; "clipped" is R^2 with them clipped to the target's
    public range, which costs no privacy and any careful user would do.
    """
    if table.is_class:
        return {
            "score": float(roc_auc_score(table.y_test, predicted)),
            "loss": log_loss(table.y_test, predicted),
            "calibration": calibration_error(table.y_test, predicted),
        }
    return {
        "score": float(r2_score(table.y_test, predicted)),
        "loss": float(np.sqrt(np.mean((predicted - table.y_test) ** 2))),
        "clipped": float(r2_score(table.y_test, np.clip(predicted, table.low, table.high))),
    }


def of_digits(labels: NDArray[np.int64], predicted: Array) -> dict[str, float]:
    """Accuracy and log-loss of probabilities (n, classes)."""
    right = np.clip(predicted[np.arange(len(labels)), labels], TINY, 1)
    return {"score": float(np.mean(predicted.argmax(axis=1) == labels)), "loss": float(-np.mean(np.log(right)))}
