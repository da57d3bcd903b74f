"""Warnings of what a statement cannot know: fits that add up without a ledger, and rows that plainly need a range."""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

import dpmac
from dpmac import ArgumentError, DPMACClassifier, DPMACRegressor, Ledger, PrivacyWarning, Schema
from dpmac.estimators import warning
from dpmac.tables import Category, Number

STEPS = 3


def table(n=60, seed=0):
    draw = np.random.RandomState(seed)
    X = draw.uniform(-1, 1, (n, 3))
    return X, (X[:, 0] + 0.3 * draw.normal(size=n) > 0).astype(int)


X, Y = table()


def model(**more):
    """Three batches of all rows: the accountant is quick then."""
    usual = {"epsilon": 2.0, "epochs": STEPS, "batch_size": 60, "classes": (0, 1)}
    return DPMACClassifier((), **{**usual, **more})


def fold(**more):
    """For folds of 40 rows, one step of all of them."""
    return model(**{"batch_size": 40, "epochs": 1, "calibrate": False, **more})


@pytest.fixture
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- fits that add up -------------------------------------------------------------------------------------------------


def test_one_fit_is_silent_and_the_second_of_the_same_rows_is_not():
    model().fit(X, Y)
    with pytest.warns(PrivacyWarning, match=r"these rows before.* 2 times.*adds up.*ledger = dpmac.Ledger\(\)") as told:
        model(epsilon=3.0).fit(X, 1 - Y)  # whatever the target is, they are the same people
    assert told[0].filename == __file__
    assert issubclass(PrivacyWarning, UserWarning)
    assert dpmac.PrivacyWarning is PrivacyWarning


def test_a_seed_spends_as_well_and_other_estimators_count_too():
    model(random_state=0).fit(X, Y)
    with pytest.warns(PrivacyWarning, match="2 times"):
        DPMACRegressor((), epochs=1, batch_size=60, target_range=(0, 1), random_state=0).fit(X, Y)


@pytest.mark.usefixtures("silent")
def test_other_rows_no_noise_and_ledgers_are_silent():
    model().fit(X, Y)
    for seed in (1, 2, 3):
        model().fit(*table(seed=seed))
    model(epsilon=math.inf).fit(X, Y)
    ledger = Ledger()
    for _ in range(3):
        model(ledger=ledger).fit(X, Y)
    warning.forget()
    model(epsilon=math.inf).fit(X, Y)
    model().fit(X, Y)


def test_a_fit_outside_the_ledger_is_one_too_many():
    model(ledger=Ledger()).fit(X, Y)
    with pytest.warns(PrivacyWarning, match="2 times"):
        model().fit(X, Y)


def test_a_subset_and_rows_in_another_order_are_the_same_people():
    model().fit(X, Y)
    for rows in (np.arange(59, -1, -1), np.arange(30, 60)):
        assert warning._known(warning._hashes(X[rows].astype(np.float32)))
    with pytest.warns(PrivacyWarning, match="2 times"):
        fold().fit(X[20:], Y[20:])


@pytest.mark.usefixtures("silent")
def test_a_fit_that_released_nothing_is_not_counted():
    for _ in range(2):
        with pytest.raises(ArgumentError, match="lr=0"):
            model(learning_rate=0).fit(X, Y)
    model().fit(X, Y)


def test_a_warning_that_is_made_an_error_stops_the_fit_before_it_spends():
    model().fit(X, Y)
    again = model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning):
            again.fit(X, Y)
    assert not hasattr(again, "privacy_")
    with pytest.warns(PrivacyWarning, match="2 times"):  # the one that was stopped spent nothing
        again.fit(X, Y)


def test_cross_validation_and_search_warn_and_not_at_every_fit():
    with pytest.warns(PrivacyWarning, match="these rows before") as told:
        cross_val_score(fold(), X, Y, cv=3)
    assert len(told) == 1  # at the second fit; then at the fourth, the eighth, ...
    with pytest.warns(PrivacyWarning, match="these rows before") as told:
        GridSearchCV(fold(), {"epsilon": [1.0, 2.0]}, cv=3, refit=False).fit(X, Y)
    first, second = (str(one.message) for one in told)
    assert "4 times" in first
    assert "8 times" in second
    assert "epsilon" not in second  # no figure that no ledger has composed


def test_a_worker_of_joblib_says_what_it_cannot_see(monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "name", "LokyProcess-7")
    with pytest.warns(PrivacyWarning, match="worker process without a ledger"):
        model().fit(X, Y)


def test_a_table_of_large_folds_is_known_again_quickly():
    """By what rows hold, not by where they stand; missing cells and margins that are all alike do no harm."""
    draw = np.random.RandomState(0)
    rows = draw.normal(size=(300_000, 12))
    rows[draw.uniform(size=rows.shape) < 0.3] = np.nan
    warning._remember(warning._hashes(rows[100_000:]))
    began = time.process_time()  # not the clock's: the machine may have other work
    found = warning._known(warning._hashes(np.roll(rows[:200_000], 17, axis=0)))
    assert time.process_time() - began < 1.0  # 20 ms on a quiet core
    assert found
    assert not warning._known(warning._hashes(draw.normal(size=(300_000, 12))))


def test_what_is_remembered_is_bounded_keyed_and_never_a_row(monkeypatch):
    for seed in range(40):
        warning._remember(warning._hashes(table(3000, seed)[0]))
    assert len(warning._remembered) == warning._TABLES
    assert all(len(one.hashes) <= 2 * warning._HASHES for one in warning._remembered)
    for _ in range(3):
        warning._remember(warning._hashes(table(3000, 39)[0]))
    assert warning._remembered[-1].fits == 4
    again = importlib.util.spec_from_file_location("as_imported_by_another_process", warning.__file__)
    other = importlib.util.module_from_spec(again)
    monkeypatch.setitem(sys.modules, again.name, other)
    again.loader.exec_module(other)
    assert int(other._hashes(np.zeros((3, 2)))[0]) != int(warning._hashes(np.zeros((3, 2)))[0])


# --- one ledger over many fits ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("silent")
def test_one_ledger_counts_a_cross_validation_and_a_search_whole():
    ledger = Ledger()
    plain = fold(ledger=ledger, calibrate=False)
    cross_val_score(plain, X, Y, cv=3)
    assert len(ledger) == 3
    GridSearchCV(plain, {"epsilon": [1.0, 2.0]}, cv=3).fit(X, Y)  # and one more, of the best
    assert len(ledger) == 3 + 2 * 3 + 2  # of 60 rows: in a batch of 40 on average, an epoch is two steps


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::dpmac.PrivacyWarning")
def test_two_processes_and_one_ledger_count_right_or_refuse(tmp_path):
    """A ledger file has one writer: a fold that finds it changed fails, and says so; what was released stands there."""
    path = tmp_path / "ledger.jsonl"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            scores = cross_val_score(fold(ledger=path, epochs=30), X, Y, cv=3, n_jobs=2)
        except ValueError as error:  # all of them
            scores, text = np.full(3, np.nan), str(error)
        else:
            text = " ".join(str(one.message) for one in told if one.category is FitFailedWarning)
    failed = np.isnan(scores)
    assert len(Ledger.load(path)) >= 30 * (~failed).sum()  # each whole fit, and what a failed one had released
    assert (
        not failed.any() or "one writer" in text or "a ledger is already there" in text or "not a dpmac ledger" in text
    )
    with pytest.raises(ValueError, match="came out of a pickle"):  # in memory it could not be shared at all
        cross_val_score(fold(ledger=Ledger()), X, Y, cv=3, n_jobs=2)


@pytest.mark.long
def test_workers_without_a_ledger_warn_on_the_terminal():
    code = (
        "import numpy as np; from sklearn.model_selection import cross_val_score; from dpmac import DPMACClassifier\n"
        "X = np.random.RandomState(0).uniform(-1, 1, (60, 3)); y = (X[:, 0] > 0).astype(int)\n"
        "cross_val_score(DPMACClassifier((), epochs=1), X, y, cv=2, n_jobs=2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert "PrivacyWarning: this private fit runs in a worker process" in done.stderr


# --- rows that need a range -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", [[50.0, 1, 1], [1, 1, 1e6]], ids=["ages", "incomes"])
def test_columns_that_are_plainly_not_scaled(spoil):
    column = int(np.argmax(spoil))
    fix = rf"column {column} of X is not scaled.*public constants.*feature_range=\(low, high\).*schema="
    with pytest.warns(PrivacyWarning, match=fix) as told:
        model().fit(X * spoil, Y)
    assert told[0].filename == __file__


@pytest.mark.usefixtures("silent")
def test_sensible_rows_are_never_warned_of():
    draw = np.random.RandomState(0)
    heavy = np.exp(2 * draw.normal(size=(60, 3)))  # a long tail, then standardised
    for rows in (X, (heavy - heavy.mean(axis=0)) / heavy.std(axis=0), draw.randint(0, 17, (60, 3)), X * [1, 1e-5, 1]):
        warning.forget()
        model().fit(rows, Y)
    warning.forget()
    model(feature_range=(-1e6, 1e6)).fit(1e6 * X, Y)
    model(epsilon=math.inf).fit(1e6 * X, Y)
    schema = Schema({"a": Number(0, 1e6), "y": Category(["0", "1"])}, target="y")
    model(schema=schema, classes=None).fit(pd.DataFrame({"a": 1e6 * X[:, 0], "y": Y.astype(str)}))
    warning.warn_of_scales(torch.zeros(2, 0))


# --- labels that are none ---------------------------------------------------------------------------------------------

BAD = [
    (np.where(Y == 1, np.nan, 0.0), "y, row [0-9]+=nan: a label is missing or not finite: give every row one, or drop"),
    (np.where(Y == 1, np.inf, 0.0), "y, row [0-9]+=inf: a label is missing"),
    ([None, *Y[1:]], "y, row 0=None: a label is missing"),
    (pd.Series([pd.NA, *Y[1:]], dtype="Int64"), "y, row 0=(<NA>|nan): a label is missing"),
    (["a", float("nan"), *["b"] * 58], "y, row 1='?nan'?: a label is missing"),
    (Y + 0.5 * X[:, 0], "y='continuous': Unknown label type: .* DPMACRegressor"),
    ([1, "a"] * 30, "y='object of several kinds': Unknown label type"),
    (Y + 1j, "y=.*complex128.*: Complex data not supported: give one label for each row"),
    ({"a": 1}, "y='dict': give one label for each row"),
    (3, "y='int': give one label for each row"),
]


@pytest.mark.parametrize(("y", "message"), BAD, ids=[message for _, message in BAD])
def test_odd_labels_are_named_and_nothing_is_spent(y, message):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=message):
        model(ledger=ledger, classes=None).fit(X, np.array(y, dtype=object) if isinstance(y, list) else y)
    assert len(ledger) == 0


def test_labels_of_nullable_columns_and_lists_are_taken():
    for y in (pd.Series(Y, dtype="Int64"), list(Y), pd.Series(Y).astype("category"), pd.Series(Y, dtype="boolean")):
        assert fold(epsilon=math.inf, classes=None).fit(X, y).classes_.tolist() == [0, 1]
