"""Estimators of torch modules: arguments, rows of every form, budgets, and what stands in the statement."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from dpmac import ArgumentError, DPMACModuleClassifier, DPMACModuleRegressor, Ledger, Machine
from dpmac.estimators import module_base
from dpmac.extensions.provenance import origin_of
from dpmac.modules import as_public
from dpmac.privacy import JointClip
from small_modules import Small, SmallRegression, Words

N = 240
AGAIN = pytest.mark.filterwarnings("ignore:this process has fitted these rows before")  # on purpose
PLAIN = {"epsilon": math.inf, "epochs": 30, "batch_size": N, "learning_rate": 0.05, "random_state": 0}
QUICK = {"epsilon": 3.0, "epochs": 2, "batch_size": N, "random_state": 0}


def rows(seed=0, n=N):
    x = np.random.RandomState(seed).uniform(-1, 1, (n, 4)).astype(np.float32)
    return x, (x[:, 0] > x[:, 1]).astype(int)


def texts(seed=0, n=N, length=5):
    """Tokens below 20, and a mask; the class is whether token 3 is there."""
    draw = np.random.RandomState(seed)
    tokens = draw.randint(4, 20, (n, length))
    tokens[::2, 1] = 3
    x = {"mask": np.ones((n, length), dtype=bool), "input_ids": tokens}  # not in the order in which the module has them
    return x, (tokens == 3).any(axis=1).astype(int)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.module_.parameters()])


# --- arguments --------------------------------------------------------------------------------------------------------


def test_arguments_of_the_module_are_arguments():
    model = DPMACModuleClassifier(Small, module__width=5, epsilon=1.0)
    assert model.get_params()["module__width"] == 5
    for twin in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.get_params() == model.get_params()
    model.set_params(module__width=7, module__outputs=3, epsilon=2.0, machine__threads=1)
    assert model._of_module == {"width": 7, "outputs": 3}
    assert (model.epsilon, model.machine) == (2.0, Machine(threads=1))
    assert "module__width=7" in repr(model)
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        model.set_params(width=3)


@AGAIN
def test_a_search_goes_over_arguments_of_the_module():
    x, y = rows()
    search = GridSearchCV(
        DPMACModuleClassifier(Small, **{**PLAIN, "epochs": 1, "batch_size": 60}), {"module__width": [1, 3]}, cv=2
    )
    found = search.fit(x, y).best_estimator_
    assert found.module_.layers[0].out_features == found.module__width


@AGAIN
def test_weights_of_a_class_follow_from_the_seed_and_torchs_own_draws_are_left_alone():
    x, y = rows()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, two, other = (
        DPMACModuleClassifier(Small, **{**QUICK, "random_state": seed}, classes=[0, 1]).fit(x, y) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(weights(one), weights(two))
    assert not torch.equal(weights(one), weights(other))
    assert np.array_equal(one.predict_proba(x), two.predict_proba(x))


def test_an_instance_is_copied_and_its_weights_are_the_start():
    x, y = rows()
    module = Small()
    before = copy.deepcopy(module.state_dict())
    model = DPMACModuleClassifier(module, epsilon=math.inf, epochs=1, batch_size=N, learning_rate=1e-9).fit(x, y)
    assert all(torch.equal(module.state_dict()[name], value) for name, value in before.items())
    assert model.module_ is not module
    torch.testing.assert_close(model.module_.state_dict(), before, atol=1e-6, rtol=0)


class NoForward:
    pass


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "module=None: give a class"),
        ({"module": 3}, "module=3: give a class"),
        ({"module": NoForward}, "module='NoForward'"),
        ({"module": Small, "module__depth": 3}, "module='Small'.*unexpected keyword argument 'depth'"),
        ({"module": Small(), "module__width": 3}, "module__width=3: the module is built already"),
        ({"module": Small, "public_start": " "}, "why=' '"),
        ({"module": nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))}, "1='BatchNorm1d'"),
        ({"module": Small, "module__outputs": 3}, r"outputs of shape \(\d, 3\).*forward must give shape \(rows, 2\)"),
        ({"module": Small, "module__inputs": 7}, "module='Small': for made-up rows"),
        ({"module": Small, "class_weight": "balanced"}, "class_weight='balanced'"),
        ({"module": Small, "classes": [0, 2]}, "y=1: this label is not among"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_spent(arguments, said):
    x, y = rows()
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=said):
        DPMACModuleClassifier(**{**QUICK, "ledger": ledger, **arguments}).fit(x, y)
    assert not len(ledger)


# --- budgets and statements -------------------------------------------------------------------------------------------


def test_one_fit_costs_its_epsilon_with_the_calibration():
    x, y = rows()
    model = DPMACModuleClassifier(Small, **QUICK, classes=[0, 1]).fit(x, y)
    assert {entry.label for entry in model.privacy_.ledger.entries} == {"training step", "base rates"}
    assert 2.9 < model.privacy_.epsilon <= 3.0
    assert model.calibration_ is not None
    raw = model.module_(torch.from_numpy(x)).detach().double().numpy()
    slope, offset = model.calibration_
    np.testing.assert_allclose(model.decision_function(x), slope * (raw[:, 1] - raw[:, 0]) + offset, atol=1e-5)
    assert np.array_equal(model.predict(x), (model.decision_function(x) > 0).astype(int))


def test_a_regression_costs_its_epsilon_with_the_residuals():
    x, _ = rows()
    y = 10 * x[:, 0]
    model = DPMACModuleRegressor(SmallRegression, target_range=(-10, 10), **QUICK).fit(x, y)
    assert {entry.label for entry in model.privacy_.ledger.entries} == {"training step", "residual scale"}
    assert 2.9 < model.privacy_.epsilon <= 3.0
    mean, std = model.predict(x, return_std=True)
    assert mean.shape == std.shape == (N,)
    assert np.abs(mean).max() <= 10


def test_classes_that_were_read_stand_in_the_statement():
    note = "the set of class labels, which was read from the data"
    x, y = rows(1)
    assert note in str(DPMACModuleClassifier(Small, **QUICK).fit(x, y).privacy_.statement())
    x, y = rows(2)
    assert note not in str(DPMACModuleClassifier(Small, **QUICK, classes=[0, 1]).fit(x, y).privacy_.statement())


@AGAIN
def test_a_start_that_was_trained_stands_in_the_statement():
    x, y = rows()
    said = "which the user called public: trained on the moon;"
    for module in (Small, Small()):
        model = DPMACModuleClassifier(module, **QUICK, public_start="trained on the moon.").fit(x, y)
        assert said in str(model.privacy_.statement())
        assert said in " ".join(model.run_.notes)
    assert "called public" not in str(DPMACModuleClassifier(Small(), **QUICK).fit(x, y).privacy_.statement())


@AGAIN
def test_a_start_that_private_rows_have_shaped_needs_its_ledger_whatever_it_is_called():
    x, y = rows()
    first = DPMACModuleClassifier(Small, **QUICK, classes=[0, 1]).fit(x, y)
    again = DPMACModuleClassifier(first.module_, **QUICK, classes=[0, 1], public_start="other people")
    ledger = Ledger()
    with pytest.raises(ArgumentError, match="private rows have shaped it"):
        again.set_params(ledger=ledger).fit(x, y)
    assert not len(ledger)
    whole = again.set_params(ledger=first.privacy_.ledger).fit(x, y)
    assert whole.privacy_.epsilon > 3.5
    assert len(origin_of(whole.module_)) == len(whole.privacy_.ledger)
    DPMACModuleClassifier(as_public(first.module_, "rows of other people"), **QUICK).fit(x, y)


@pytest.mark.long
def test_it_learns_and_a_rule_gives_what_was_not_given():
    x, y = rows(4, 600)
    model = DPMACModuleClassifier(Small, epsilon=8.0, classes=[0, 1], random_state=0).fit(x, y)
    assert model.score(x, y) > 0.85
    assert (model.plan_.steps, model.plan_.batch_size) == (200, 256)
    assert not model.module_.training


def test_labels_of_any_kind_and_several_a_row():
    x, y = rows(5)
    named = DPMACModuleClassifier(Small, **PLAIN).fit(x, np.where(y > 0, "yes", "no"))
    assert named.classes_.tolist() == ["no", "yes"]
    assert named.score(x, np.where(y > 0, "yes", "no")) > 0.9
    both = np.stack([y, 1 - y, y], axis=1)
    several = DPMACModuleClassifier(Small, module__outputs=3, **PLAIN).fit(x, both)
    assert several.predict(x).shape == both.shape
    assert several.score(x, both) > 0.9
    weighed = DPMACModuleClassifier(Small, **PLAIN, class_weight={0: 0.01}).fit(x, y)
    assert weighed.predict(x).mean() > named.score(x, np.where(y > 0, "yes", "no")) - 0.5


# --- rows of every form -----------------------------------------------------------------------------------------------


class Pairs(Dataset):
    """Items (input, target), or dictionaries with both."""

    def __init__(self, x, y, key=None):
        self.x, self.y, self.key = x, y, key

    def __len__(self):
        return len(self.y)

    def __getitem__(self, row):
        inputs = {name: values[row] for name, values in self.x.items()} if isinstance(self.x, dict) else self.x[row]
        if self.key is not None:
            return {**inputs, self.key: self.y[row]}
        return inputs, self.y[row]


class Columns:
    """What a Hugging Face dataset gives: lists by column."""

    def __init__(self, columns):
        self.columns = columns

    @property
    def column_names(self):
        return list(self.columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, which):
        if isinstance(which, str):
            return list(self.columns[which])
        return {name: [np.asarray(values)[row].tolist() for row in which] for name, values in self.columns.items()}


def forms_of_texts():
    x, y = texts()
    return {
        "arrays": (x, y),
        "tensors": ({name: torch.from_numpy(values) for name, values in x.items()}, torch.from_numpy(y)),
        "a column of the dictionary": ({**x, "label": y}, "label"),
        "items, pairs": (Pairs(x, y), None),
        "items, dictionaries": (Pairs(x, y, "label"), "label"),
        "columns": (Columns({**x, "label": y, "text": ["a text"] * N}), "label"),
        "columns, and targets beside": (Columns(x), y),
    }


@AGAIN
@pytest.mark.parametrize("form", forms_of_texts())
def test_the_same_rows_in_any_form_give_the_same_model(form):
    x, y = texts()
    wanted = DPMACModuleClassifier(Words, **QUICK, classes=[0, 1]).fit(x, y)
    given, labels = forms_of_texts()[form]
    model = DPMACModuleClassifier(Words, **QUICK, classes=[0, 1]).fit(given, labels)
    assert torch.equal(weights(model), weights(wanted))
    assert model.calibration_ == wanted.calibration_
    assert np.array_equal(model.predict_proba(given), wanted.predict_proba(x))
    assert {name for name, _, _ in model.inputs_} == {"input_ids", "mask"}


@AGAIN
def test_an_array_a_tensor_a_frame_and_a_dataset_of_one_input():
    x, y = rows()
    wanted = DPMACModuleClassifier(Small, **QUICK, classes=[0, 1]).fit(x, y)
    frame = pd.DataFrame(x, columns=list("abcd"))
    forms = [
        (torch.from_numpy(x), y),
        (frame, y),
        (x.tolist(), y),
        (TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), None),
    ]
    for given, labels in forms:
        model = DPMACModuleClassifier(Small, **QUICK, classes=[0, 1]).fit(given, labels)
        assert torch.equal(weights(model), weights(wanted))
        assert np.array_equal(model.predict(given), wanted.predict(x))


def test_a_regression_takes_its_targets_out_of_a_dataset():
    x, _ = rows(6)
    y = 3 * x[:, 0]
    plain = {**PLAIN, "epochs": 2}
    wanted = DPMACModuleRegressor(SmallRegression, target_range=(-3, 3), **plain).fit(x, y)
    model = DPMACModuleRegressor(SmallRegression, target_range=(-3, 3), **plain).fit(Pairs(x, y))
    torch.testing.assert_close(weights(model), weights(wanted))


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


BAD = {
    "lengths": ({"input_ids": np.zeros((9, 3), int), "mask": np.ones((8, 3), bool)}, np.arange(9) % 2, "rows by input"),
    "targets": (np.zeros((9, 4)), np.arange(8) % 2, "y='8 targets': there are 9 rows"),
    "no targets": ({"input_ids": np.zeros((9, 3), int)}, None, "y=None"),
    "no such column": ({"input_ids": np.zeros((9, 3), int)}, "label", "y='label': X has no such column"),
    "no column of an array": (np.zeros((9, 4)), "label", "y='label': X has no columns by name"),
    "ragged": ({"input_ids": [[1], [1, 2]]}, [0, 1], "give rows of one shape"),
    "texts": ({"input_ids": ["a", "b"]}, [0, 1], "input_ids=.*tokeniser"),
    "not finite": ({"input_ids": np.array([[1.0], [np.nan]])}, [0, 1], "row 1, column 0 is not finite"),
    "one number": ({"input_ids": 3}, [0, 1], "input_ids='one number'"),
    "nothing": ({}, [0, 1], "an empty dictionary"),
    "a stream": (Stream(), None, "map-style"),
    "items without targets": (Pairs({"input_ids": np.zeros((4, 3), int)}, np.zeros(4), "label"), None, "items are"),
}


@pytest.mark.parametrize("case", BAD)
def test_rows_that_cannot_be_are_named(case):
    x, y, said = BAD[case]
    ledger = Ledger()
    with pytest.raises(ValueError, match=said):
        DPMACModuleClassifier(Words, **QUICK, ledger=ledger, classes=[0, 1]).fit(x, y)
    assert not len(ledger)


def test_rows_to_predict_are_of_the_kind_that_was_fitted(monkeypatch):
    x, y = texts(7)
    model = DPMACModuleClassifier(Words, **{**PLAIN, "epochs": 1}).fit(x, y)
    for other, said in (
        ({"input_ids": x["input_ids"]}, "fitted on mask, input_ids"),
        ({**x, "mask": x["mask"][:, :3]}, "mask='rows of shape"),
        ({**x, "input_ids": x["input_ids"] + 0.5}, "fitted on int64"),
        ({**x, "input_ids": x["input_ids"] + 9}, "the module's embedding has 20 tokens"),
        (x["input_ids"], "1 inputs"),
    ):
        with pytest.raises(ValueError, match=said):
            model.predict(other)
    whole = model.predict_proba({**x, "more": 1})
    monkeypatch.setattr(module_base, "_BLOCK", 7)
    np.testing.assert_allclose(model.predict_proba(x), whole, atol=1e-6)
    with pytest.raises(NotFittedError):
        DPMACModuleClassifier(Words).predict(x)


# --- rows that make no sense are blank, and nobody is told ------------------------------------------------------------


@AGAIN
def test_a_token_that_is_in_no_table_is_said_beforehand_where_it_can_be_known():
    x, y = texts()
    x["input_ids"][17, 2] = 20
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=r"input_ids, row 17=20: the module's embedding has 20 tokens, 0 to 19"):
        DPMACModuleClassifier(Words, **QUICK, ledger=ledger, classes=[0, 1]).fit(x, y)
    assert not len(ledger)


@AGAIN
@pytest.mark.parametrize("harm", ["token", "label", "shape", "nothing"])
def test_one_bad_row_of_a_dataset_neither_stops_a_fit_nor_moves_another_row(harm):
    """It counts as blank: the same model as with a blank place there, to the last bit, calibration and all."""
    x, y = texts()
    listed = [{name: values[row] for name, values in x.items()} for row in range(N)]
    labels = y.tolist()
    if harm == "token":
        listed[17]["input_ids"] = listed[17]["input_ids"] * 1000
    if harm == "label":
        labels[17] = 7
    if harm == "shape":
        listed[17]["input_ids"] = listed[17]["input_ids"][:2]

    class Rows(Dataset):
        def __len__(self):
            return N

        def __getitem__(self, row):
            return listed[row], labels[row]

    settings = {**QUICK, "epsilon": 3.0, "classes": [0, 1]}
    model = DPMACModuleClassifier(Words, **settings).fit(Rows())
    assert len(model.privacy_.ledger) == model.plan_.steps + 1
    other = list(labels)
    other[17] = None
    labels[:] = other
    blank = DPMACModuleClassifier(Words, **settings).fit(Rows())
    assert torch.equal(weights(model), weights(blank)) == (harm != "nothing")
    assert torch.isfinite(weights(model)).all()


# --- machines ---------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@AGAIN
def test_a_fit_that_was_killed_goes_on(tmp_path, monkeypatch):
    x, y = rows()
    settings = {**QUICK, "epochs": 6, "classes": [0, 1]}
    whole = DPMACModuleClassifier(Small, **settings).fit(x, y)
    kept = {"ledger": tmp_path / "book", "machine": Machine(checkpoint=tmp_path / "kept")}
    from dpmac.training.trainer import Trainer

    step, count = Trainer._step, []

    def killing(*arguments):
        count.append(1)
        if len(count) == 4:
            raise Killed
        step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", killing)
        with pytest.raises(Killed):
            DPMACModuleClassifier(Small, **settings, **kept).fit(x, y)
    again = DPMACModuleClassifier(Small, **settings, **kept).fit(x, y)
    assert torch.equal(weights(again), weights(whole))
    assert again.calibration_ == whole.calibration_
    assert len(Ledger.load(tmp_path / "book")) == len(whole.privacy_.ledger)


@AGAIN
def test_groups_are_persons():
    x, y = rows(8)
    model = DPMACModuleClassifier(Small, **{**QUICK, "batch_size": 80}, classes=[0, 1], bound=JointClip(1.0))
    model.fit(x, y, groups=np.arange(N) // 3)
    assert model.plan_.n == 80
    assert "one person, with all their rows" in str(model.privacy_.statement())
    table = Columns({"x": x, "label": y, "patient": np.arange(N) // 3})
    named = clone(model).fit(table, "label", groups="patient")
    assert named.plan_.n == 80
