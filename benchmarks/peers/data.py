"""The five real tables with their public schemas: loading, the split, and encodings that look at no training row.

The preprocessed table is the same for every method: numbers clipped to their public range, categories as strings out
of the schema's list (anything else is missing), a target clipped to its public range. The split is that of
`spec/tables.md`: `numpy.random.RandomState(0).permutation(n)`, of which the first fifth is the test part.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
DELTA = 1e-6
BINS = 12
WIDE = 20.0  # a range wider than this is also coded in log1p


@dataclass(frozen=True)
class Column:
    """One feature as the schema describes it; `values` is empty for a number."""

    name: str
    low: float
    high: float
    values: tuple[str, ...]
    missing: bool

    @property
    def is_number(self) -> bool:
        return not self.values


@dataclass(frozen=True)
class Table:
    """A table after preprocessing and splitting; `y` is 0 and 1 for a class, in its own unit for a number."""

    name: str
    schema_path: Path
    columns: tuple[Column, ...]
    is_class: bool
    labels: tuple[str, str]  # of y = 0 and y = 1; empty strings for a number
    low: float  # the target's public range; 0 and 1 for a class
    high: float
    train: pd.DataFrame
    test: pd.DataFrame
    y_train: Array
    y_test: Array

    def unit(self, y: Array) -> Array:
        return (y - self.low) / (self.high - self.low)

    def from_unit(self, u: Array) -> Array:
        return self.low + (self.high - self.low) * u


def column(name: str, entry: dict[str, Any]) -> Column:
    values = tuple(entry.get("values", ()))
    return Column(name, entry.get("low", 0.0), entry.get("high", 1.0), values, bool(entry.get("missing", False)))


def names(data: Path) -> list[str]:
    return sorted(path.name.removesuffix(".schema.json") for path in (data / "tables").glob("*.schema.json"))


def is_class(data: Path, name: str) -> bool:
    schema = json.loads((data / "tables" / f"{name}.schema.json").read_text())
    return "values" in schema["columns"][schema["target"]]


@lru_cache(maxsize=2)
def load(data: Path, name: str) -> Table:
    schema_path = data / "tables" / f"{name}.schema.json"
    schema = json.loads(schema_path.read_text())
    target, entries = schema["target"], schema["columns"]
    every = {key: column(key, entry) for key, entry in entries.items()}
    types = {key: np.float64 if one.is_number else str for key, one in every.items()}
    frame = pd.read_csv(schema_path.with_name(f"{name}.csv.gz"), dtype=types, keep_default_na=False, na_values=[""])
    for key, one in every.items():
        if one.is_number:
            frame[key] = frame[key].clip(one.low, one.high)
        else:
            frame[key] = frame[key].astype(object).where(frame[key].isin(one.values), None)
    goal = every[target]
    if goal.is_number:
        labels, y = ("", ""), frame[target].to_numpy(np.float64)
    else:
        if len(goal.values) != 2:
            raise ValueError(f"{name}: only two classes are measured here, the schema lists {len(goal.values)}")
        positive = schema["positive"]
        labels = (next(value for value in goal.values if value != positive), positive)
        y = (frame[target] == positive).to_numpy(np.float64)
    features = frame.drop(columns=target)
    order = np.random.RandomState(0).permutation(len(frame))
    test, train = order[: len(frame) // 5], order[len(frame) // 5 :]
    return Table(
        name=name,
        schema_path=schema_path,
        columns=tuple(every[key] for key in features.columns),
        is_class=not goal.is_number,
        labels=labels,
        low=goal.low,
        high=goal.high,
        train=features.iloc[train].reset_index(drop=True),
        test=features.iloc[test].reset_index(drop=True),
        y_train=y[train],
        y_test=y[test],
    )


def number_codes(values: Array, one: Column, bins: int) -> list[Array]:
    """A number in [-1, 1] and, with bins, `clip(bins u - k, 0, 1)` beside it; wide ranges a second time in log1p."""
    gone = np.isnan(values)
    scales = [(values - one.low) / (one.high - one.low)]
    if bins and one.high - one.low > WIDE:
        scales.append(np.log1p(values - one.low) / np.log1p(one.high - one.low))
    codes: list[Array] = []
    for u in scales:
        codes.append(2 * u - 1)
        codes += [np.clip(bins * u - k, 0, 1) for k in range(bins)]
    return [np.where(gone, 0.0, code) for code in codes]


def encode(columns: tuple[Column, ...], frame: pd.DataFrame, bins: int = 0) -> Array:
    """Numbers scaled (with a piecewise-linear code of equal bins if bins > 0), categories one-hot, missing-flags."""
    parts: list[Array] = []
    for one in columns:
        values = frame[one.name]
        if one.is_number:
            parts += number_codes(values.to_numpy(np.float64), one, bins)
        else:
            parts += [(values == value).to_numpy(np.float64) for value in one.values]
        if one.missing:
            parts.append(values.isna().to_numpy(np.float64))
    return np.stack(parts, axis=1)


def encoded_bounds(columns: tuple[Column, ...]) -> tuple[Array, Array, float]:
    """Of `encode` without bins: the least and greatest value of every code, and the greatest norm of a row."""
    low: list[float] = []
    high: list[float] = []
    for one in columns:
        width = 1 if one.is_number else len(one.values)
        low += [-1.0 if one.is_number else 0.0] * width + [0.0] * one.missing
        high += [1.0] * (width + one.missing)
    # A number is at most 1 in size and 0 where it is missing; a category sets one code, its flag in place of it.
    return np.array(low), np.array(high), float(np.sqrt(len(columns)))
