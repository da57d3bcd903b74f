"""Few rows: base rates in place of a calibration, for classes, labels, persons, weights, modules; kept and counted."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from torch import nn

import dpmac
from dpmac import DPMACClassifier, DPMACModuleClassifier, Ledger, Machine
from dpmac.estimators.warning import forget
from dpmac.training.post_training import PostTraining

ROWS = 300


def rare(n, share, seed=0):
    """Rows of two classes, exactly ``share`` of them positive."""
    draw = np.random.RandomState(seed)
    y = (np.arange(n) < round(share * n)).astype(int)
    x = draw.uniform(-1, 1, (n, 4))
    x[:, 0] = np.clip(x[:, 0] + 0.5 * y, -1, 1)
    return x, y


def fitted(x, y, kind=DPMACClassifier, groups=None, **more):
    forget()
    usual = {"epsilon": 0.5, "random_state": 0, "epochs": 40}
    if groups is None:
        usual |= {"batch_size": len(y)}  # the accountant is quick then
    if kind is DPMACClassifier:
        usual |= {"feature_range": (-1, 1), "hidden_layer_sizes": ()}
    return kind(**{**usual, **more}).fit(x, y, groups=groups)


def excess(share, p):
    """The log-loss of saying ``p`` above that of the share of positives, in nats."""
    p = float(np.mean(p))
    return share * math.log(share / p) + (1 - share) * math.log((1 - share) / (1 - p))


def labels_of(model):
    return {mechanism.label: mechanism.count for mechanism in model.privacy_.ledger.mechanisms()}


def test_a_rare_class_comes_near_its_share_whatever_the_seed():
    """Without base rates the mean probability is .4 here, and the excess .4 nats."""
    found = [fitted(*rare(ROWS, 0.01, seed), random_state=seed) for seed in range(6)]
    x, _ = rare(2000, 0.01, seed=9)
    losses = [excess(0.01, model.predict_proba(x)[:, 1]) for model in found]
    assert max(losses) < 0.06
    assert np.mean(losses) < 0.03
    assert labels_of(found[0]) == {"training step": found[0].plan_.steps, "base rates": 1}
    assert 0.49 < found[0].privacy_.epsilon <= 0.5
    bare = fitted(*rare(ROWS, 0.01), calibrate=False)
    assert excess(0.01, bare.predict_proba(x)[:, 1]) > 0.2


def test_of_several_classes_each_comes_near_its_share():
    x, _ = rare(ROWS, 0.1)
    y = np.repeat(["a", "b", "c"], [240, 45, 15])
    model = fitted(x, y, epsilon=1.5)
    assert len(model.calibration_) == 3
    assert np.abs(model.predict_proba(x).mean(axis=0) - [0.8, 0.15, 0.05]).max() < 0.1


def test_of_several_labels_each_comes_near_its_share():
    x, _ = rare(ROWS, 0.1)
    y = (np.random.RandomState(1).uniform(size=(ROWS, 2)) < [0.05, 0.6]).astype(int)
    model = fitted(x, y, epsilon=1.5)
    assert len(model.calibration_) == 3
    assert np.abs(model.predict_proba(x).mean(axis=0) - y.mean(axis=0)).max() < 0.12


def test_of_persons_a_class_has_the_share_of_persons():
    """Ten positives bring 40 of 340 rows, and are 10 of 250 persons."""
    x, _ = rare(280, 0.1)
    ids = np.concatenate([np.repeat(np.arange(10), 4), np.arange(10, 250)])
    y = (ids < 10).astype(int)
    model = fitted(x[: len(ids)], y, groups=ids, epsilon=2.0)
    assert model.predict_proba(x)[:, 1].mean() == pytest.approx(0.04, abs=0.03)
    assert model.privacy_.ledger.entries[-1].label == "base rates"


def test_weights_of_classes_are_kept():
    x, y = rare(ROWS, 0.1)
    model = fitted(x, y, epsilon=1.5, class_weight={0: 1 / 9})
    assert model.predict_proba(x)[:, 1].mean() == pytest.approx(0.5, abs=0.15)


def test_a_saved_model_has_its_offsets(tmp_path):
    x, _ = rare(ROWS, 0.1)
    model = fitted(x, np.repeat(["a", "b", "c"], [240, 45, 15]))
    model.save(tmp_path / "model")
    again = dpmac.load(tmp_path / "model")
    assert again.calibration_ == model.calibration_
    assert np.array_equal(again.predict_proba(x), model.predict_proba(x))


def test_a_module_has_them_beside_its_logits(tmp_path):
    x, y = rare(ROWS, 0.02)
    made = functools.partial(nn.Linear, 4, 3)
    y[-10:] = 2
    model = fitted(x.astype(np.float32), y, DPMACModuleClassifier, module=made, epsilon=1.5, classes=(0, 1, 2))
    p = model.predict_proba(x.astype(np.float32))
    assert len(model.calibration_) == 3
    assert 0.8 < p[:, 0].mean() < 0.995
    model.save(tmp_path / "model")
    again = dpmac.load(tmp_path / "model", module=made)
    assert np.array_equal(again.predict_proba(x.astype(np.float32)), p)


class Killed(BaseException):
    pass


def test_a_fit_that_was_killed_behind_its_base_rates_ends_as_if_it_had_not_been(tmp_path, monkeypatch):
    x, y = rare(ROWS, 0.1)
    whole = fitted(x, y)
    kept = {"ledger": tmp_path / "book", "machine": Machine(checkpoint=tmp_path / "kept")}

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(PostTraining, "keep", killed)
        with pytest.raises(Killed):
            fitted(x, y, **kept)
    paid = len(Ledger.load(tmp_path / "book"))
    again = fitted(x, y, **kept)
    assert again.calibration_ == whole.calibration_
    assert len(again.privacy_.ledger) == paid == len(whole.privacy_.ledger)
