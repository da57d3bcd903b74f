"""Categories with more values than a budget supports: warned of by public numbers alone, at fit and at check."""

from __future__ import annotations

import numpy as np
import pytest

from dpmac import DPMACClassifier, Schema
from dpmac.tables import Category, CrowdedWarning, Hash, Number
from dpmac.tables.crowding import crowded, crowding


def schema(kind):
    return Schema({"code": kind, "x": Number(0, 1), "y": Category(["a", "b"])}, target="y")


def test_many_values_for_few_rows_are_named():
    many = schema(Category(range(300)))
    assert crowded(many, 4000, 2.0) == {"code": 300}
    assert crowded(many, 4000, 4.0) == {}
    assert crowded(schema(Hash(64)), 4000, 2.0) == {}
    assert crowded(schema(Category(range(40))), 100, 0.1) == {}  # a few are taken as they are
    assert "'code' has 300, and 4,000 persons at epsilon 2 can teach about 200" in crowding(many, 4000, 2.0, "person")


def test_a_fit_warns_once_it_is_known_how_many_rows_there_are():
    draw = np.random.default_rng(0)
    table = {"code": draw.integers(0, 300, 400), "x": draw.uniform(size=400), "y": draw.choice(["a", "b"], 400)}
    model = DPMACClassifier((), schema=schema(Category(range(300))), epsilon=1.0, epochs=1)
    with pytest.warns(CrowdedWarning, match=r"many values: 'code' has 300.*kind hash"):
        model.fit(table)
    DPMACClassifier((), schema=schema(Hash(16)), epsilon=1.0, epochs=1).fit(table)
