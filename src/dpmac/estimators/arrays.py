"""Arrays by scikit-learn's own checks; errors that NumPy, pandas or torch raise in between become our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import validation
from torch import Tensor

from dpmac.checks import ArgumentError, how_many

Array = np.ndarray[Any, Any]
MISSING = (
    "say in a schema which columns may be missing (Number(low, high, missing=True)): such a cell is then an input of "
    "its own, and costs nothing. Or fill it with a public constant. An imputer, or leaving rows out by what others "
    "hold, would learn from these rows outside the guarantee"
)


def validate_data(estimator: Any, X: Any, *rest: Any, **how: Any) -> Any:
    """``X``, or ``X`` and ``y``, as scikit-learn's function of this name has it: its ValueErrors and TypeErrors are
    those that every estimator gives. A tensor may be part of a graph."""
    with _read_as_numbers(X):
        try:
            return validation.validate_data(estimator, _plain(X), *rest, **how)
        except ValueError as error:
            if str(error).startswith("Input X contains NaN"):
                raise ArgumentError("X", f"Input X contains NaN{_how_many(X)}", MISSING) from None
            raise


def exact_array(X: Any) -> Array:
    """Rows of numbers, float64, in an order and at a place that a tensor can be made of."""
    with _read_as_numbers(X):
        return np.require(validation.check_array(_plain(X), dtype=np.float64), requirements=["C", "W"])


@contextmanager
def _read_as_numbers(X: Any) -> Iterator[None]:
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError) as error:
        said = (str(error).splitlines() or [""])[0]
        fix = f"it cannot be read as rows of numbers ({type(error).__name__}: {said}): give an array (n, features)"
        raise ArgumentError("X", type(X).__name__, fix) from None


def _how_many(X: Any) -> str:
    """In how many cells, where that can be counted."""
    try:
        gone = np.isnan(np.asarray(X, dtype=np.float64))
    except (TypeError, ValueError):
        return ""
    return f" in {how_many(int(gone.sum()), 'cell')} of {gone.size:,}"


def _plain(X: Any) -> Any:
    """A tensor that is part of a graph gives no array; its numbers do."""
    if isinstance(X, Tensor):
        return X.detach()
    return X
