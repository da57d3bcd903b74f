"""Small additive models of made-up people, for several test files."""

from __future__ import annotations

import numpy as np

from dpmac import DPMACClassifier, DPMACRegressor, Schema
from dpmac.tables import Category, Date, Number

ROWS = 400
COLUMNS = {
    "age": Number(17, 90, missing=True),
    "share": Number(-1, 1),
    "job": Category(["a", "b", "c"], missing=True),
    "only": Category(["x"]),
    "since": Date("2020-01-01", "2021-12-31", missing=True),
    "day": Date("2020-01-01", "2021-12-31", parts=("month", "weekday")),
}
FEW = {"batch_size": 100, "epochs": 4, "random_state": 3}


def schema(target, kind):
    return Schema({**COLUMNS, target: kind}, target=target)


BINARY = schema("y", Category(["no", "yes"]))
THREE = schema("y", Category(["low", "mid", "high"]))
NUMBER = schema("y", Number(-5, 15))


def table(rows=ROWS, seed=0, target="binary"):
    draw = np.random.default_rng(seed)
    age, job = draw.uniform(10, 95, rows), draw.choice(["a", "b", "c", "never heard of"], rows)
    days = np.datetime64("2019-12-01") + draw.integers(0, 800, rows)
    score = (age - 50) / 20 + (job == "a") + draw.normal(size=rows)
    found = {
        "age": np.where(draw.uniform(size=rows) < 0.2, np.nan, age),
        "share": draw.uniform(-1.2, 1.2, rows),
        "job": np.where(draw.uniform(size=rows) < 0.2, None, job),
        "only": np.full(rows, "x"),
        "since": np.where(draw.uniform(size=rows) < 0.2, np.datetime64("NaT"), days),
        "day": days,
    }
    if target == "binary":
        found["y"] = np.where(score > 0, "yes", "no")
    elif target == "three":
        found["y"] = np.array(["low", "mid", "high"])[np.digitize(score, [-0.7, 0.7])]
    else:
        found["y"] = 5 + 3 * score
    return found


PAIRS = [("age", "job"), ("share", "since")]


def binary(**more):
    return DPMACClassifier(**{"schema": BINARY, "epsilon": 4.0, "additive": PAIRS, **FEW, **more})


def three(**more):
    return DPMACClassifier(**{"schema": THREE, "epsilon": 4.0, "additive": True, **FEW, **more})


def number(**more):
    return DPMACRegressor(**{"schema": NUMBER, "epsilon": 4.0, "additive": PAIRS, **FEW, **more})


def of_row(terms, name, cell, code):
    """What a term adds for one cell by its points alone: np.interp, look-up, or the value for a missing one."""
    if cell is None or code != code:
        return terms[name].missing
    total = 0.0
    for part in terms[name].parts:
        if part.name == "missing":
            continue
        if part.knots[0] is not None:
            columns = part.values.reshape(len(part.knots[0]), -1).T
            total = total + np.array([np.interp(code, part.knots[0], one) for one in columns])
        elif part.name in ("month", "weekday"):
            day = cell.astype("datetime64[D]").astype(object)
            place = {"month": day.month - 1, "weekday": day.weekday()}[part.name]
            total = total + part.values.reshape(len(part.values), -1)[place]
        else:
            labels = list(part.labels[0])
            place = labels.index(cell) if cell in labels else labels.index("other")
            total = total + part.values.reshape(len(part.values), -1)[place]
    return total
