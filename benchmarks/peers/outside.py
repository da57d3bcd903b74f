"""The methods that run in an environment of their own: diffprivlib, DP-XGBoost, and boosting on synthetic rows.

Their settings were chosen on a held-out fifth of *training* rows at epsilon 2 (see docs/results/tables.md), which is in
no epsilon and so a favour to them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .data import BINS, DELTA, WIDE, Array, Column, Table, encode, encoded_bounds
from .environments import Environments, ask

Fit = tuple[Array, float]


def diffprivlib(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:  # noqa: ARG001
    """diffprivlib's LogisticRegression or LinearRegression, epsilon alone."""
    low, high, norm = encoded_bounds(table.columns)
    predicted, seconds = ask(
        env,
        "diffprivlib",
        "diffprivlib_worker.py",
        train=encode(table.columns, table.train),
        test=encode(table.columns, table.test),
        y=table.y_train if table.is_class else table.unit(table.y_train),
        epsilon=epsilon,
        kind="linear",
        is_class=table.is_class,
        low=low,
        high=high,
        norm=norm,
        y_low=0.0,
        y_high=1.0,
    )
    return (predicted if table.is_class else table.from_unit(predicted)), seconds


def forest(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:  # noqa: ARG001
    """diffprivlib's RandomForestClassifier: random splits, private labels of the leaves. It has no regressor."""
    if not table.is_class:
        raise ValueError("diffprivlib has no forest for numbers")
    low, high = order_bounds(table.columns)
    return ask(
        env,
        "diffprivlib",
        "diffprivlib_worker.py",
        train=orders(table.columns, table.train),
        test=orders(table.columns, table.test),
        y=table.y_train,
        epsilon=epsilon,
        kind="forest",
        is_class=True,
        low=low,
        high=high,
    )


def dp_xgboost(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:
    low, high = order_bounds(table.columns)
    predicted, seconds = ask(
        env,
        "dp-xgboost",
        "dp_xgboost_worker.py",
        train=orders(table.columns, table.train),
        test=orders(table.columns, table.test),
        y=table.y_train if table.is_class else table.unit(table.y_train),
        epsilon=epsilon,
        seed=seed,
        is_class=table.is_class,
        low=low,
        high=high,
    )
    return (predicted if table.is_class else table.from_unit(predicted)), seconds


def mst(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:
    return synthetic(table, epsilon, seed, env, "mst")


def aim(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:
    return synthetic(table, epsilon, seed, env, "aim")


def synthetic(table: Table, epsilon: float, seed: int, env: Environments, kind: str) -> Fit:
    """Boosting on as many synthetic rows as there are training rows; all that it sees of these are the synthetic."""
    edges = target_edges(table)
    middles = (edges[:-1] + edges[1:]) / 2
    train, sizes = binned(table.columns, table.train)
    test, _ = binned(table.columns, table.test)
    y = table.y_train.astype(np.int64) if table.is_class else places(table.y_train, edges)
    predicted, seconds = ask(
        env,
        "smartnoise",
        "synthetic_worker.py",
        train=np.column_stack([train, y]),
        test=test,
        sizes=np.array([*sizes, 2 if table.is_class else len(middles)]),
        nominal=np.array([not one.is_number for one in table.columns]),
        middles=table.unit(middles),
        is_class=table.is_class,
        kind=kind,
        epsilon=epsilon,
        delta=DELTA,
        seed=seed,
    )
    return (predicted if table.is_class else table.from_unit(predicted)), seconds


def orders(columns: tuple[Column, ...], frame: pd.DataFrame) -> Array:
    """Numbers as they are (the low end where missing, and a flag beside), categories as their place in the schema."""
    parts = []
    for one in columns:
        values = frame[one.name]
        if one.is_number:
            parts.append(values.fillna(one.low).to_numpy(np.float64))
            if one.missing:
                parts.append(values.isna().to_numpy(np.float64))
        else:
            parts.append(category_places(one, values).astype(np.float64))
    return np.stack(parts, axis=1)


def order_bounds(columns: tuple[Column, ...]) -> tuple[Array, Array]:
    low: list[float] = []
    high: list[float] = []
    for one in columns:
        if one.is_number:
            low += [one.low] + [0.0] * one.missing
            high += [one.high] + [1.0] * one.missing
        else:
            low.append(0.0)
            high.append(float(len(one.values) - 1 + one.missing))
    return np.array(low), np.array(high)


def category_places(one: Column, values: pd.Series) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The place in the schema's list; what is missing comes after the last."""
    known = {value: place for place, value in enumerate(one.values)}
    return values.map(known).fillna(len(one.values)).to_numpy(np.int64)


def binned(columns: tuple[Column, ...], frame: pd.DataFrame) -> tuple[np.ndarray, list[int]]:
    """Every column as a place among a public number of places; a missing number has a place after the last bin."""
    parts, sizes = [], []
    for one in columns:
        if one.is_number:
            edges = public_edges(one.low, one.high, BINS)
            values = frame[one.name]
            place = places(values.fillna(one.low).to_numpy(np.float64), edges)
            parts.append(np.where(values.isna(), len(edges) - 1, place))
            sizes.append(len(edges) - 1 + one.missing)
        else:
            parts.append(category_places(one, frame[one.name]))
            sizes.append(len(one.values) + one.missing)
    return np.stack(parts, axis=1), sizes


def public_edges(low: float, high: float, bins: int) -> Array:
    """Equal bins, as of the codes that the other methods get; over wide ranges those of log1p too."""
    equal = np.linspace(low, high, bins + 1)
    if high - low <= WIDE:
        return equal
    return np.unique(np.concatenate([equal, low + np.expm1(np.linspace(0, np.log1p(high - low), bins + 1))[1:-1]]))


def target_edges(table: Table) -> Array:
    return public_edges(table.low, table.high, 2 * BINS)


def places(values: Array, edges: Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.searchsorted(edges[1:-1], values, side="right").astype(np.int64)
