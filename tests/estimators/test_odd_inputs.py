"""Arrays, labels and arguments that are not what they should be: each once ended in somebody else's traceback."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch

from dpmac import DPMACPCA, ArgumentError, DPMACClassifier, DPMACRegressor, Ledger, Schema
from dpmac.tables import Category, Number

QUICK = {"epsilon": 8.0, "delta": 1e-3, "batch_size": 12, "epochs": 2, "hidden_layer_sizes": ()}
HUGE = 10**400  # no float is so large


def rows():
    draw = np.random.default_rng(0)
    return draw.uniform(-1, 1, (24, 3)), draw.integers(0, 2, 24)


@pytest.mark.parametrize(
    ("name", "value"), [("bound", 3), ("bound", []), ("z_step", []), ("z_step", 3), ("activation", 3)]
)
def test_an_argument_that_is_no_piece_of_ours_is_refused_by_its_name(name, value, tmp_path):
    with pytest.raises(ArgumentError, match=f"{name}="):
        DPMACClassifier(**{**QUICK, "hidden_layer_sizes": (3,), name: value}, ledger=tmp_path / "ledger").fit(*rows())
    assert not (tmp_path / "ledger").exists()


def test_a_number_that_no_array_can_hold():
    x, y = rows()
    wide = x.astype(object)
    wide[3, 1] = HUGE
    with pytest.raises(ArgumentError, match="cannot be read as rows of numbers"):
        DPMACClassifier(**QUICK).fit(wide, y)
    targets = y.astype(object)
    for cell in (HUGE, Decimal("sNaN")):
        targets[2] = cell
        with pytest.raises(ArgumentError, match=r"y=|cannot be read as rows of numbers"):
            DPMACRegressor(**QUICK, target_range=(0, 1)).fit(x, targets)


@pytest.mark.parametrize("cell", [Decimal("sNaN"), Decimal("NaN"), np.array([1, 2]), None, pd.NA])
def test_a_label_that_cannot_be_compared_is_missing(cell):
    x, y = rows()
    labels = y.astype(object)
    labels[5] = cell
    with pytest.raises(ArgumentError, match="y, row 5"):
        DPMACClassifier(**QUICK).fit(x, labels)


@pytest.mark.parametrize("classes", [[0, [1]], [0, "1", None], [{}, 1]])
def test_classes_that_are_no_list_of_labels(classes):
    with pytest.raises(ArgumentError, match=r"classes=|y="):
        DPMACClassifier(**QUICK, classes=classes).fit(*rows())
    with pytest.raises(ArgumentError, match="classes="):
        DPMACClassifier(**QUICK, classes=classes).fit(rows()[0], np.eye(24, 5, dtype=int))


def test_tensors_that_are_part_of_a_graph_are_taken_for_their_numbers():
    x, y = rows()
    settings = {**QUICK, "random_state": 1, "feature_range": (-1, 1), "ledger": Ledger()}
    plain = DPMACClassifier(**settings).fit(x, y)
    grown = DPMACClassifier(**settings).fit(
        torch.from_numpy(x).requires_grad_(), torch.from_numpy(y.astype(float)).requires_grad_()
    )
    asked = torch.from_numpy(x).requires_grad_()
    assert np.array_equal(plain.predict_proba(x), grown.predict_proba(asked))


def test_codes_in_any_order_in_memory():
    x, _ = rows()
    model = DPMACPCA(2, epsilon=8.0, delta=1e-3, feature_range=(-1, 1)).fit(x)
    codes = model.transform(x)
    assert np.array_equal(model.inverse_transform(codes[::-1]), model.inverse_transform(codes)[::-1])
    with pytest.raises(ArgumentError, match="cannot be read as rows of numbers"):
        model.inverse_transform([[HUGE, 1.0]])


def test_a_target_of_whole_numbers_in_a_mapping_of_lists():
    """A list of numbers in a plain dictionary is read as the numbers that it holds."""
    x, y = rows()
    table = {"a": x[:, 0].tolist(), "b": y.tolist()}
    schema = Schema({"a": Number(-1, 1), "b": Category([0, 1])}, target="b")
    model = DPMACClassifier(**QUICK, schema=schema).fit(table)
    assert model.classes_.tolist() == [0, 1]
    table["b"][3] = None
    with pytest.raises(ArgumentError, match="column 'b', row 3"):
        DPMACClassifier(**QUICK, schema=schema).fit(table)


def test_a_ledger_where_none_can_be(tmp_path):
    for place, fix in ((tmp_path, "this is a folder"), (tmp_path / "no" / "ledger", "there is no folder")):
        with pytest.raises(ArgumentError, match=fix):
            DPMACClassifier(**QUICK, ledger=place).fit(*rows())
    assert list(tmp_path.iterdir()) == []
