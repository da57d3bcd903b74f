"""Delete a person with all their rows, literally, and run every method from end to end, as test_neighbours does.

Neighbouring tables: one person, there or blank; the number of persons is public, that of rows is not. Every person that
goes has been given rows to do harm with: far more than a release takes, all alike, huge, or no numbers at all.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier

from askers import IMAGES, SUPERVISED, UNSUPERVISED, convolutional, dense, labels, numbers
from dpmac.estimators import ESTIMATORS, DPMACAutoencoder
from dpmac.privacy import JointClip, Ledger, PrivateRows, sampling
from dpmac.randomness import SeededNoise
from pictured import as_given, quickly
from small_modules import Small, SmallRegression
from test_neighbours import kinked, moved, run

PERSONS = 24
SIZES = (40, 1, 7, 30, *(1 + place % 6 for place in range(PERSONS - 4)))  # of the persons, in rows


def whose():
    """An id for each row, a person's rows scattered over the table."""
    ids = torch.repeat_interleave(torch.arange(PERSONS), torch.tensor(SIZES))
    return ids[SeededNoise(5).uniform(len(ids)).argsort()]


def outrageous(x, ids):
    """Of the first persons the rows are all alike, of the second huge, of the third and fourth no numbers, or some."""
    x = x.clone()
    x[ids == 0] = 100.0
    x[ids == 1] = 1e30
    x[ids == 2] = torch.nan
    x[(ids == 3) & (torch.arange(len(ids)) % 2 == 0)] = torch.inf
    return x


def worst(method, columns, monkeypatch, max_rows, places=(0, 1, 2, 3, PERSONS - 1)):
    """The largest and the least move of any release over deletions of persons, in units of its promise."""
    ids = whose()
    order = list(dict.fromkeys(ids.tolist()))  # the places of persons
    table = PrivateRows(*columns, groups=ids, max_rows=max_rows)
    tape = run(method, table, monkeypatch)
    assert tape
    moves = []
    for person in places:
        other = run(method, table.without(order.index(person)), monkeypatch, tape)
        moves += [moved(a, b) for a, b in zip(tape, other, strict=True)]
    return max(moves), min(moves)


ROWS = len(whose())
TABLES = {
    "outrageous": lambda: outrageous(numbers(ROWS, 5), whose()),
    "on the kinks of a ReLU": lambda: kinked(dense(), ROWS),
}


SLOW = ("projected", "Z-step adam", "Z-step gauss", "loss", "calibration, ")  # of a kind with others that are not


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name.startswith(SLOW) else []) for name in SUPERVISED]
)
def test_no_release_of_a_training_moves_by_more_than_its_promise(name, monkeypatch):
    columns = (TABLES["outrageous"](), labels(ROWS, 4))
    assert worst(SUPERVISED[name], columns, monkeypatch, 4, places=(0, 3))[0] <= 1.0


@pytest.mark.parametrize("max_rows", [1, 32])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "name", ["bound joint", "bound adaptive", "a feature map computed once", "Z-step fixed, sampled"]
)
def test_whatever_a_person_brings(name, table, max_rows, monkeypatch):
    columns = (TABLES[table](), labels(ROWS, 4))
    assert worst(SUPERVISED[name], columns, monkeypatch, max_rows, places=(0, 1, 3))[0] <= 1.0


@pytest.mark.parametrize("name", UNSUPERVISED)
def test_no_release_of_an_unsupervised_method_moves_by_more_than_its_promise(name, monkeypatch):
    x = outrageous(numbers(ROWS, 9), whose()).clamp(-1e4, 1e4).nan_to_num(3e4)
    assert worst(UNSUPERVISED[name], (x,), monkeypatch, 4)[0] <= 1.0


def test_no_release_of_a_convolution_moves_by_more_than_its_promise(monkeypatch):
    kinks = convolutional().weight_layers[0].weight.detach()[0, 0].sum()
    for x in (outrageous(numbers(ROWS, 1, 8, 8), whose()), kinks * torch.ones(ROWS, 1, 8, 8)):
        assert worst(IMAGES["convolution"], (x, labels(ROWS, 4)), monkeypatch, 4, places=(0, 3))[0] <= 1.0


def test_persons_do_move_the_releases_and_all_of_their_rows_at_once_by_no_more_than_one_promise(monkeypatch):
    """The measure is alive: where all rows of a person pull together, each at its bound, the move is a whole promise;
    and with a weight of 1 for every row the door finds it out, and would have let through 32 of them."""
    x = torch.full((ROWS, 5), 30.0)
    columns = (x, torch.eye(4)[torch.zeros(ROWS, dtype=torch.long)])
    largest, _ = worst(SUPERVISED["bound joint"], columns, monkeypatch, 32, places=(0,))
    assert 0.99 < largest <= 1.0
    exact = sampling.gathered
    monkeypatch.setattr(sampling, "gathered", lambda *where: (exact(*where)[0], (exact(*where)[1] > 0).double()))
    with pytest.raises(RuntimeError, match="exceeds the bound"):
        worst(SUPERVISED["bound joint"], columns, monkeypatch, 32, places=(0,))


@pytest.mark.parametrize(
    ("kind", "options"), [*((kind, {}) for kind in ESTIMATORS), (DPMACAutoencoder, {"method": "gradient"})]
)
def test_no_release_of_an_estimators_fit_feels_another_person_through_its_preparation(kind, options, monkeypatch):
    """From what a user hands to ``fit``: a person's rows become others, and more of them. That is one person blanked
    and one filled in, so each release may move by two promises; a plan, a delta or a shape by the number of rows, or a
    mean of them, would move all."""
    people = 200
    ids = np.repeat(np.arange(people), 1 + np.arange(people) % 3)
    x = SeededNoise(3).normal((len(ids), 4)).numpy()
    y = np.clip(0.5 + x[:, 0] / 6, 0, 1)
    wanted = {"epsilon": 3.0, "epochs": 2, "batch_size": people, "bound": JointClip(0.05), "random_state": 0, **options}
    wanted |= {"target_range": (0.0, 1.0), "classes": (0, 1), "feature_range": (-3, 3), "max_rows": 2}
    wanted["module"] = Small if is_classifier(kind()) else SmallRegression
    wanted |= quickly(kind)
    model = kind(**{name: value for name, value in wanted.items() if name in kind().get_params()})

    def fit(x, y, ids):
        targets = (y > 0.5).astype(int) if is_classifier(model) else y
        return lambda *_: clone(model).set_params(ledger=Ledger()).fit(as_given(model, x), targets, groups=ids)

    tape = run(fit(x, y, ids), None, monkeypatch)
    keep = ids != 8
    other_x = np.concatenate([x[keep], np.full((50, 4), 1e6)])
    other_y = np.concatenate([y[keep], np.full(50, 0.0 if y[ids == 8].mean() > 0.5 else 1.0)])
    other_ids = np.concatenate([ids[keep], np.full(50, 8)])
    order = np.argsort(other_ids, kind="stable")  # places as they were
    other = run(fit(other_x[order], other_y[order], other_ids[order]), None, monkeypatch, tape)
    assert len(tape) == len(other) >= 2
    assert max(moved(a, b) for a, b in zip(tape, other, strict=True)) <= 2.0
