"""Arrays by scikit-learn's own checks; errors that NumPy, pandas or torch raise in between become our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import validation
from torch import Tensor

from dpmac.checks import ArgumentError

Array = np.ndarray[Any, Any]


def validate_data(estimator: Any, X: Any, *rest: Any, **how: Any) -> Any:
    """``X``, or ``X`` and ``y``, as scikit-learn's function of this name has it: its ValueErrors and TypeErrors are
    those that every estimator gives. A tensor may be part of a graph."""
    with _read_as_numbers(X):
        return validation.validate_data(estimator, _plain(X), *rest, **how)


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


def _plain(X: Any) -> Any:
    """A tensor that is part of a graph gives no array; its numbers do."""
    if isinstance(X, Tensor):
        return X.detach()
    return X
