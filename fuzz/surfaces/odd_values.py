"""Odd cells, columns, arrays and containers, for whatever takes rows."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch

from fuzz.cases import OWN, Case


class Colour(enum.Enum):
    """A label of somebody's own."""

    RED = 1


class Refuses:
    """Looks like an array, and is none."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(OWN)


CELLS: tuple[Any, ...] = (
    *(None, float("nan"), float("inf"), -float("inf"), 1e39, -1e300, 1e-320, 2**63, 10**400, -1, 0, True, 0.5, 1 + 2j),
    *("", " ", "x", "1", "1.0", "nan", "1e999", "\x00", "\ud800", "é", "a" * 2000, b"x", b"\xff", "1_000", "0x1", "٣"),
    *(
        pd.NA,
        pd.NaT,
        np.float32("nan"),
        np.datetime64("NaT"),
        np.int64(3),
        np.str_("F"),
        Decimal("1.5"),
        Decimal("NaN"),
    ),
    *(Decimal("sNaN"), Fraction(1, 3), dt.date(2020, 1, 1), dt.timedelta(1), pd.Timestamp("2020"), pd.Interval(0, 1)),
    *([], [1], (1, 2), {}, {"a": 1}, {1}, object, Colour.RED, Refuses(), np.array([1, 2]), np.array(1.0), len),
    *(torch.tensor(1.0), np.ma.masked, range(3), Ellipsis, memoryview(b"x"), pd.Period("2020-01")),
)
DTYPES: tuple[Any, ...] = (
    *("int8", "uint64", "float16", "longdouble", "complex64", "bool", "object", "U5", "S5", "M8[s]", "m8[D]"),
    *(">f8", "<i2", [("a", "f8"), ("b", "i4")]),
)


def odd_array(case: Case, array: Any) -> Any:
    """An array with something odd about its cells, dtype, shape or memory."""
    match case.random.randrange(9):
        case 0 | 1 | 2:
            return _odd_cells(case, array)
        case 3:
            kind = case.one_of(DTYPES)
            case.note(f"dtype {kind}")
            try:
                return np.asarray(array).astype(kind)
            except Exception:  # it has no such form
                return array
        case 4:
            rows = case.one_of([0, 1, 2, 3, 23])
            case.note(f"{rows} rows")
            return array[:rows]
        case 5 if getattr(array, "ndim", 0) == 2:
            width = case.one_of([0, 1, 2, 4])
            case.note(f"{width} columns")
            return np.concatenate([array, array], axis=1)[:, :width]
        case 6:
            return _other_shape(case, np.asarray(array))
        case 7:
            case.note("strides")
            doubled = np.repeat(np.asarray(array), 2, axis=0)
            return case.one_of([doubled[::2], np.asfortranarray(array), np.asarray(array)[::-1]])
        case _:
            scale = case.one_of([0.0, 1e30, 1e300, 1e-30])
            case.note(f"times {scale}")
            try:
                return array * scale
            except Exception:
                return array


def _odd_cells(case: Case, array: Any) -> Any:
    cell = case.one_of(CELLS)
    case.note(f"cell {cell!r:.40}")
    spoilt = np.array(array, dtype=object)
    if not spoilt.size:
        return array
    flat = spoilt.reshape(-1)
    for place in case.random.sample(range(flat.size), min(case.one_of([1, 1, 5, 10**6]), flat.size)):
        flat[place] = cell
    if case.random.random() < 0.5:
        try:
            return np.array(spoilt.tolist())
        except Exception:
            return spoilt
    return spoilt


def _other_shape(case: Case, array: Any) -> Any:
    shapes = [array.reshape(-1), array[None], array[..., None], array.T, array.ravel()[:0], array.ravel()[0]]
    found = case.one_of(shapes) if array.size else array
    case.note(f"shape {getattr(found, 'shape', ())}")
    return found


def odd_container(case: Case, array: Any) -> Any:
    """The same rows in something else that may be meant to hold rows."""
    x = np.asarray(array)
    frame = _frame(x)
    makers: tuple[Any, ...] = (
        *(x.tolist, lambda: tuple(map(tuple, x.tolist())), lambda: [*x.tolist(), [1]], lambda: "rows", lambda: None),
        *(lambda: scipy.sparse.csr_matrix(x), lambda: scipy.sparse.coo_array(x), lambda: torch.from_numpy(x)),
        *(
            lambda: torch.from_numpy(x).requires_grad_(),
            lambda: frame,
            lambda: frame.set_axis([0] * x.shape[1], axis=1),
        ),
        *(lambda: frame.set_axis(pd.MultiIndex.from_tuples([("a", k) for k in range(x.shape[1])]), axis=1),),
        *(lambda: frame.set_axis([1, "b", None][: x.shape[1]], axis=1), lambda: frame.astype("Float64")),
        *(lambda: frame.astype("string"), lambda: frame.astype("category"), lambda: frame.iloc[:, 0], lambda: frame.T),
        *(lambda: np.ma.masked_invalid(x), lambda: np.ma.array(x, mask=x > 0), lambda: np.asmatrix(x), lambda: iter(x)),
        *(lambda: {"a": x[:, 0]}, lambda: {1, 2}, lambda: len, Refuses, lambda: dict(enumerate(x.tolist())), lambda: 3),
        *(
            lambda: memoryview(x.tobytes()),
            lambda: x.tobytes(),
            lambda: x.astype(object),
            lambda: pd.arrays.SparseArray,
        ),
    )
    maker = case.one_of(makers)
    try:
        found = maker()
    except Exception:  # it has no such form
        return array
    case.note(f"as {type(found).__name__}")
    return found


def _frame(x: Any) -> Any:
    return pd.DataFrame(x if x.ndim == 2 else x.reshape(len(x) if x.ndim else 1, -1))


def odd_column(case: Case, cells: list[Any]) -> Any:
    """A column of a table in another type, with odd cells, or of another length."""
    match case.random.randrange(6):
        case 0 | 1:
            cell = case.one_of(CELLS)
            case.note(f"cell {cell!r:.40}")
            spoilt = list(cells)
            for place in case.random.sample(range(len(spoilt)), min(len(spoilt), case.one_of([1, 1, 4, 10**6]))):
                spoilt[place] = cell
            return spoilt
        case 2:
            case.note("another length")
            return cells[: case.one_of([0, 1, len(cells) - 1])] if case.random.random() < 0.7 else [*cells, cells[0]]
        case 3 | 4:
            kind = case.one_of(
                ["category", "string", "Int64", "Float64", "boolean", "datetime64[ns]", "object", "Sparse[float]", "U3"]
            )
            case.note(f"as {kind}")
            try:
                return pd.Series(cells).astype(kind)
            except Exception:
                return pd.Series(cells, index=range(100, 100 + len(cells)))
        case _:
            odd = case.one_of(
                [None, "text", b"bytes", 3, {}, {"a": 1}, np.zeros((len(cells), 2)), Refuses(), iter(cells)]
            )
            case.note(f"column {odd!r:.40}")
            return odd
