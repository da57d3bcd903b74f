"""A table of people with a public schema, of strings and with missing cells, and models of it: for several files."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd

from dpmac import DPMACClassifier
from dpmac.tables import Category, Number, Schema

FEATURES = {
    "age": Number(18, 90),
    "dose": Number(0, 5, missing=True),
    "sex": Category(["F", "M"]),
    "group": Category(["a", "b"], missing=True),
}
SCHEMA = Schema({**FEATURES, "died": Category(["0", "1"])}, target="died", positive="1")


def people(n, seed=0):
    """Numbers and strings, a tenth of two columns missing, a group that the schema does not list."""
    draw = np.random.RandomState(seed)
    age, dose, sex = draw.uniform(18, 90, n), draw.uniform(0, 5, n), draw.choice(["F", "M"], n)
    died = draw.uniform(size=n) < 1 / (1 + np.exp(-(age - 54) / 6 - 2.0 * (sex == "M") + 0.5 * dose))
    group = pd.Series(draw.choice(["a", "b", "stranger"], n)).where(draw.uniform(size=n) > 0.1, None)
    dose[draw.uniform(size=n) < 0.1] = np.nan
    died = np.where(died, "1", "0")
    return pd.DataFrame({"name": "someone", "group": group, "died": died, "sex": sex, "dose": dose, "age": age})


TABLE, UNSEEN = people(1200), people(1200, seed=1)
FEW = TABLE[:300]
X, Y = TABLE.drop(columns="died"), TABLE["died"]


def plain(**more):
    return model(**{"epsilon": math.inf, "batch_size": None, "epochs": 20, **more})


def model(**more):
    """Batches of all rows (the accountant is quick then), and always the same epochs and epsilon."""
    usual = {"epsilon": 2.0, "epochs": 30, "batch_size": 1200, "random_state": 0, "schema": SCHEMA}
    return DPMACClassifier(**{**usual, **more})


def small(**more):
    """For 300 rows, without a calibration."""
    return model(**{"batch_size": 300, "calibrate": False, **more})


class Watched(DPMACClassifier):
    """Remembers what it would have said without its calibration."""

    def _write_into_the_network(self, slope, offset):
        self.before_ = self.decision_function(UNSEEN)
        super()._write_into_the_network(slope, offset)


def labels_of(ledger):
    return Counter(entry.label for entry in ledger.entries)


def watched():
    """A private model of the whole table."""
    return Watched(**model().get_params(deep=False)).fit(TABLE)
