"""The methods: each fits on a table's training rows and predicts its test rows.

A classifier returns the probability of the schema's positive class, a regressor numbers in the target's unit. What a
private method is told beyond the rows (ranges, categories, norms) comes from the schema alone.
"""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from . import outside
from .data import BINS, DELTA, Array, Table, encode
from .environments import Environments, build
from .timing import started

Fit = tuple[Array, float]


def dpmac(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:  # noqa: ARG001
    """dpmac's own, defaults otherwise: system randomness, hence no seed."""
    return _ours(table, epsilon)


def dpmac_additive(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:  # noqa: ARG001
    """The same as a sum of one function a column, which can be read."""
    return _ours(table, epsilon, additive=True)


def _ours(table: Table, epsilon: float, **chosen: bool) -> Fit:
    model, seconds = ours(table, epsilon, **chosen)
    if not table.is_class:
        return np.asarray(model.predict(table.test), np.float64), seconds
    positive = [str(label) for label in model.classes_].index(table.labels[1])
    return np.asarray(model.predict_proba(table.test), np.float64)[:, positive], seconds


def ours(table: Table, epsilon: float, **chosen: bool) -> tuple[Any, float]:
    """A fitted estimator, and the seconds of its fit."""
    from dpmac import DPMACClassifier, DPMACRegressor, Schema  # type: ignore[attr-defined]

    kind = DPMACClassifier if table.is_class else DPMACRegressor
    y = np.array(table.labels)[table.y_train.astype(int)] if table.is_class else table.y_train
    clock = started()
    model = kind(epsilon=epsilon, delta=DELTA, schema=Schema.load(table.schema_path), **chosen).fit(table.train, y)
    return model, clock()


def dp_ebm(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:  # noqa: ARG001
    """interpret's DP-EBM, whose random_state must stay None to be private.

    It refuses missing values: a missing category becomes one of its own, a missing number the low end of its range.
    Its interface takes the bounds of numbers but no list of nominal values: it reads from the training rows which
    occur (their noisy counts are paid for, their names are not).
    """
    test, clock = _plain(table, table.test), started()
    model = ebm(table, epsilon)
    seconds = clock()
    if table.is_class:
        return np.asarray(model.predict_proba(test))[:, 1], seconds
    return np.asarray(model.predict(test)), seconds


def ebm(table: Table, epsilon: float) -> Any:
    """A fitted DP-EBM."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    common = {
        "feature_types": ["continuous" if one.is_number else "nominal" for one in table.columns],
        "privacy_bounds": {one.name: (one.low, one.high) for one in table.columns if one.is_number},
        "epsilon": epsilon,
        "delta": DELTA,
        "n_jobs": 1,
    }
    train = _plain(table, table.train)
    if table.is_class:
        return DPExplainableBoostingClassifier(**common).fit(train, table.y_train.astype(int))
    model = DPExplainableBoostingRegressor(privacy_target_min=table.low, privacy_target_max=table.high, **common)
    return model.fit(train, table.y_train)


def _plain(table: Table, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.fillna({one.name: one.low if one.is_number else "(missing)" for one in table.columns})


def opacus(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:  # noqa: ARG001
    from .opacus_net import fit_predict

    return fit_predict(table, epsilon, seed)


def boosting(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:  # noqa: ARG001
    """scikit-learn's histogram gradient boosting, defaults: not private."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    def codes(frame: pd.DataFrame) -> Array:
        parts = [
            frame[one.name] if one.is_number else frame[one.name].map({v: i for i, v in enumerate(one.values)})
            for one in table.columns
        ]
        return np.stack([part.to_numpy(np.float64) for part in parts], axis=1)

    categories = [not one.is_number for one in table.columns]
    kind = HistGradientBoostingClassifier if table.is_class else HistGradientBoostingRegressor
    rows, clock = codes(table.train), started()
    model = kind(categorical_features=categories, random_state=seed).fit(rows, table.y_train)
    seconds = clock()
    test = codes(table.test)
    return (model.predict_proba(test)[:, 1] if table.is_class else model.predict(test)), seconds


def linear(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:  # noqa: ARG001
    """Logistic or ridge regression on the encoding with bins: not private."""
    from sklearn.linear_model import LogisticRegression, Ridge

    rows, clock = encode(table.columns, table.train, BINS), started()
    model = (LogisticRegression(max_iter=2000) if table.is_class else Ridge()).fit(rows, table.y_train)
    seconds = clock()
    test = encode(table.columns, table.test, BINS)
    return (model.predict_proba(test)[:, 1] if table.is_class else model.predict(test)), seconds


def constant(table: Table, epsilon: float, seed: int, env: Environments) -> Fit:  # noqa: ARG001
    """The base rate or the mean: what any model must beat. Not private."""
    clock = started()
    mean = float(table.y_train.mean())
    return np.full(len(table.y_test), mean), clock()


PRIVATE: dict[str, Callable[[Table, float, int, Environments], Fit]] = {
    "dpmac": dpmac,
    "dpmac-additive": dpmac_additive,
    "dp-ebm": dp_ebm,
    "diffprivlib": outside.diffprivlib,
    "opacus": opacus,
    "dp-xgboost": outside.dp_xgboost,
    "forest": outside.forest,
    "mst": outside.mst,
    "aim": outside.aim,
}
PLAIN: dict[str, Callable[[Table, float, int, Environments], Fit]] = {
    "boosting": boosting,
    "linear": linear,
    "constant": constant,
}
ONCE = ("linear", "constant")  # no randomness: one fit says it all
METHODS = PRIVATE | PLAIN
CLASSES_ONLY = ("forest",)
OWN_ENVIRONMENT = {
    "diffprivlib": "diffprivlib",
    "forest": "diffprivlib",
    "dp-xgboost": "dp-xgboost",
    "mst": "smartnoise",
    "aim": "smartnoise",
}


def missing(method: str, env: Environments) -> str:
    """Why a method cannot run here, or an empty string; builds the environment that it needs where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if method.startswith("dpmac"):
                from dpmac import DPMACClassifier, DPMACRegressor, Schema  # type: ignore[attr-defined]  # noqa: F401
            elif method == "dp-ebm":
                import interpret.privacy  # noqa: F401
            elif method == "opacus":
                from . import opacus_net  # noqa: F401
            elif method in OWN_ENVIRONMENT:
                build(env, OWN_ENVIRONMENT[method])
    except (ImportError, AttributeError, OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
