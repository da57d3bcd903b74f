"""One small fitted model of every kind that can be saved, rows to ask it about, and all that it answers."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
import torch

from dpmac import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACImageClassifier, DPMACRegressor, Schema
from dpmac.mac import AdamCoordinates
from dpmac.nets.activations import TANH
from dpmac.privacy import LeastEnergy, PerLayerClip
from dpmac.tables import Category, Number
from pictured import as_given, quickly

ROWS = 40
COLUMNS = {
    "age": Number(18, 90),
    "dose": Number(0, 5, missing=True),
    "sex": Category(["F", "M"]),
    "group": Category(["a", "b"], missing=True),
}
DIED = Schema({**COLUMNS, "died": Category(["0", "1"])}, target="died", positive="1", name="people")
WEIGHT = Schema({**COLUMNS, "weight": Number(40, 120)}, target="weight")
LOW, HIGH = np.array([-1.0, -2.0, -1.5, -1.0]), np.array([1.0, 2.0, 1.5, 1.0 + 2**-30])
GRADIENT = {"epochs": 2, "batch_size": ROWS, "epsilon": math.inf}
PRIVATE = {**GRADIENT, "epsilon": 2.0}


def rows(seed, n=ROWS):
    return np.random.RandomState(seed).uniform(-1, 1, (n, 4)).astype(np.float32)


def people(seed, n=ROWS):
    draw = np.random.RandomState(seed)
    dose = draw.uniform(0, 5, n)
    dose[::7] = np.nan
    return {
        "age": draw.uniform(10, 95, n).tolist(),
        "dose": dose.tolist(),
        "sex": draw.choice(["F", "M"], n).tolist(),
        "group": [None if k % 9 == 0 else draw.choice(["a", "b", "c"]).item() for k in range(n)],
        "died": draw.choice(["0", "1"], n).tolist(),
        "weight": draw.uniform(30, 130, n).tolist(),
    }


def classes(values, dtype=None):
    """Labels that follow from the first columns, of any type."""
    kinds = np.array(values, dtype=dtype)
    return lambda x: kinds[((x[:, 0] > 0).astype(int) + (x[:, 1] > 0)) % len(kinds)]


def on_arrays(make, label, **more):
    """A maker of models of arrays: fitted on rows of its own, asked about others."""

    def made(seed):
        x = rows(seed)
        return make(**more).fit(x, label(x)), rows(seed + 1000)

    return made


def on_tables(make, **more):
    return lambda seed: (make(**more).fit(people(seed)), people(seed + 1000))


def named(seed):
    frame = pd.DataFrame(rows(seed), columns=list("abcd"))
    public = pd.DataFrame(rows(seed + 1000), columns=list("abcd"))
    model = DPMACClassifier((3,), **GRADIENT).fit(frame, frame["a"] > 0, public_validation=(public, public["a"] > 0))
    return model, public


def pictures(seed):
    x = rows(seed)
    make = DPMACImageClassifier(**quickly(DPMACImageClassifier), **PRIVATE)
    return make.fit(as_given(make, x), STRINGS(x)), as_given(make, rows(seed + 1000))


def numbers(x):
    return x @ [1.0, 2.0, 0.0, -1.0]


def nothing(x):
    return None


STRINGS, MANY = classes(["no", "perhaps", "yes"]), classes([[0, 1, 1], [1, 0, 0]], np.int8)
OBJECTS = {
    "bound": PerLayerClip((0.5, 1.0), LeastEnergy((1.0, 2.0))),
    "z_step": AdamCoordinates(steps=2, optimizer=torch.optim.SGD),
    "activation": TANH,
    "hidden_layer_sizes": [3],
}
MAKERS = {
    "strings": on_arrays(DPMACClassifier, STRINGS, feature_range=(-1, 1), **PRIVATE),
    "ints": on_arrays(DPMACClassifier, classes([3, -7], np.int16), feature_range=(LOW, HIGH), **GRADIENT),
    "bools": on_arrays(DPMACClassifier, classes([True, False]), classes=[True, False], **GRADIENT),
    "floats": on_arrays(DPMACClassifier, classes([1.0, 2.0]), random_state=3, class_weight={2.0: 0.25}, **GRADIENT),
    "objects": on_arrays(DPMACClassifier, classes(["é", "日本"], object), **{**PRIVATE, **OBJECTS}),
    "sigmoid": on_arrays(DPMACClassifier, STRINGS, loss="sigmoid", hidden_layer_sizes=(), **GRADIENT),
    "labels": on_arrays(
        DPMACClassifier, MANY, classes=("x", "y", "z"), class_weight=[{1: 2.0}, {0: 0.5}, {}], **GRADIENT
    ),
    "pictures": pictures,
    "named columns": named,
    "table": on_tables(DPMACClassifier, schema=DIED, **PRIVATE),
    "table, schema as a dictionary": on_tables(DPMACClassifier, schema=DIED.to_dict(), **GRADIENT),
    "number": on_arrays(DPMACRegressor, numbers, target_range=(-4, 4.5), activation="gelu", **PRIVATE),
    "number of a table": on_tables(DPMACRegressor, schema=WEIGHT, residuals=False, **PRIVATE),
    "network code": on_arrays(
        DPMACAutoencoder, nothing, method="gradient", code_size=2, feature_range=(LOW, HIGH), **PRIVATE
    ),
    "network code of a table": on_tables(DPMACAutoencoder, method="gradient", schema=DIED, **GRADIENT),
    "closed form": on_arrays(DPMACAutoencoder, nothing, method="closed-form", code_size=2, feature_range=[-1, 1]),
    "closed form of a table": on_tables(DPMACAutoencoder, method="closed-form", code_size=3, schema=Schema(COLUMNS)),
    "linear code": on_arrays(DPMACAutoencoder, nothing, method="closed-form", share=1.0, epsilon=math.inf),
    "components": on_arrays(DPMACPCA, nothing, n_components=2, normalise=True),
    "components of a table": on_tables(DPMACPCA, schema=DIED, epsilon=1),
}


@cache
def made(name):
    """The fitted model of that name, and rows to ask it about."""
    return MAKERS[name](list(MAKERS).index(name))


ASKED = ("predict", "predict_proba", "decision_function", "transform", "reconstruction_error")


def answers(model, x):
    """Everything that a model says of rows, by method."""
    found = {name: getattr(model, name)(x) for name in ASKED if hasattr(model, name)}
    if "transform" in found:
        again = model.inverse_transform(found["transform"])
        found |= again if isinstance(again, dict) else {"inverse_transform": again}
    if getattr(model, "residual_std_", None) is not None:
        found["mean"], found["std"] = model.predict(x, return_std=True)
    return {name: np.asarray(value) for name, value in found.items()}


def same(first, second):
    """Whether two arrays are equal bit for bit, kind and all."""
    first, second = np.asarray(first), np.asarray(second)
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if first.dtype.kind == "O":
        return all(a is b or a == b or (a != a and b != b) for a, b in zip(first.flat, second.flat, strict=True))
    return first.tobytes() == second.tobytes()


def all_same(first, second):
    return first.keys() == second.keys() and all(same(first[name], second[name]) for name in first)
