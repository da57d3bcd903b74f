"""A rare outcome is called by a threshold on its probability: who is found then, and who is called by mistake.

The rows must be public, or the answer is outside any guarantee: these are plain sums over rows, without noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmac.checks import ArgumentError, number

FIX = "give a probability from 0 to 1; rows whose probability of the positive class is that or more are called"
AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the base rate: where thresholds for a rare outcome lie


@dataclass(frozen=True)
class AtThreshold:
    """Rows with a probability of ``threshold`` or more are called. Of rows of which there are none a rate is None.

    ``sensitivity`` is the part called of those that came about, ``specificity`` the part not called of the others,
    ``precision`` the part that came about of those called, and ``called`` their part of all rows.
    """

    threshold: float
    sensitivity: float | None
    specificity: float | None
    precision: float | None
    called: float


def at_threshold(happened: Any, probabilities: Any, threshold: float) -> AtThreshold:
    """What a threshold does on rows whose outcome is known."""
    t = number("threshold", threshold, FIX, low=0.0, high=1.0)
    came, p = _looked_over(happened, probabilities)
    called = p >= t
    return AtThreshold(
        threshold=t,
        sensitivity=_part(called & came, came),
        specificity=_part(~called & ~came, ~came),
        precision=_part(called & came, called),
        called=float(called.mean()),
    )


def thresholds_to_choose(happened: Any, probabilities: Any) -> list[AtThreshold]:
    """Thresholds about the base rate, and one half: round numbers to choose from."""
    came, p = _looked_over(happened, probabilities)
    base = float(came.mean())
    wanted = {0.5, *(_rounded(base * times) for times in AROUND)}
    return [at_threshold(came, p, t) for t in sorted(wanted) if 0 < t < 1]


def _rounded(value: float) -> float:
    """To two digits."""
    if value <= 0:
        return 0.0
    digits = 1 - math.floor(math.log10(value))
    return round(value, digits)


def _part(some: np.ndarray[Any, Any], of: np.ndarray[Any, Any]) -> float | None:
    if not of.any():
        return None
    return float(some.sum() / of.sum())


def _looked_over(happened: Any, probabilities: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    came, p = np.asarray(happened).astype(bool), np.asarray(probabilities, dtype=np.float64)
    if came.ndim != 1 or p.shape != came.shape or not len(p):
        raise ArgumentError("probabilities", f"shape {p.shape}", f"give one for each of {came.shape} outcomes")
    return came, p
