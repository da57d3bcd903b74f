"""What would fail when a fit is paid for is refused before: arguments, labels, public rows, what no file keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import dpmac
from dpmac import DPMACModuleClassifier
from dpmac.checks import ArgumentError
from dpmac.estimators import DPMACAutoencoder, DPMACClassifier, Machine
from dpmac.modules import FrozenModule
from dpmac.nets.feature_maps import FeatureMap
from dpmac.priors import Prior, PublicRows, WhiteningOptions, whitened
from dpmac.privacy import Ledger, PerLayerClip

DRAW = np.random.RandomState(0)
X = DRAW.uniform(-1, 1, (120, 3))
Y = (X[:, 0] > 0).astype(int)
NAN = X.copy()
NAN[-1, -1] = np.nan


def spent(ledger):
    return len(Ledger.read(ledger)) if ledger.exists() else 0


MACHINES = [
    ({"checkpoint": "file"}, "no folder can be made there"),
    ({"checkpoint": "file/below"}, "no folder can be made there"),
    ({"checkpoint": "/proc/nobody"}, "no folder can be made there"),
    ({"checkpoint": "book"}, "the ledger book is in its way"),
    ({"checkpoint": "book/below"}, "the ledger book is in its way"),
    ({"checkpoint": 5}, "give the path of a folder"),
    ({"threads": 10**9}, "give a number of threads"),
    ({"device": "cuda:99"}, "use 'cpu'"),
    ({"micro_batch_size": 0}, "give a number of rows"),
    ({"progress": "yes"}, "choose True, False or 'auto'"),
]
ARGUMENTS = [
    ({"machine": "cuda"}, "give a dpmac.Machine"),
    ({"random_state": -1}, "give None or a whole number"),
    ({"learning_rate": float("nan")}, "give a learning rate"),
    ({"delta": 0.5}, "below 1/n"),
    ({"hidden_layer_sizes": (4,), "activation": "none of ours"}, "activation"),
    ({"classes": [0, "\udc80"]}, "UTF-8"),
]


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS, ids=[str(a) for a, _ in ARGUMENTS])
def test_arguments(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match=message):
        DPMACClassifier(**{"epsilon": 5, "epochs": 2, "ledger": "book", **arguments}).fit(X, Y)
    assert spent(tmp_path / "book") == 0


@pytest.mark.parametrize(("arguments", "message"), MACHINES, ids=[str(a) for a, _ in MACHINES])
def test_machines(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match=message):
        DPMACClassifier(epsilon=5, epochs=2, ledger="book", machine=Machine(**arguments)).fit(X, Y)
    assert spent(tmp_path / "book") == 0


LABELS = {
    "not UTF-8": np.array(["a", "\udc80"])[Y],
    "long doubles": Y.astype(np.longdouble),
    "bytes": np.array([b"a", b"b"])[Y],
    "one class": np.zeros(120),
    "two kinds": np.array(["a", 1], dtype=object)[Y],
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="a long double is a double here")
def test_labels_that_no_file_could_keep(kind, tmp_path):
    with pytest.raises(ArgumentError):
        DPMACClassifier(epsilon=5, epochs=2, ledger=tmp_path / "book").fit(X, LABELS[kind])
    assert spent(tmp_path / "book") == 0


@pytest.mark.parametrize("labels", [np.array(["x", "ü\n"]), np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]")])
def test_labels_that_are_fitted_can_be_saved(labels, tmp_path):
    model = DPMACClassifier(epsilon=5, epochs=2).fit(X, labels[Y])
    again = dpmac.load(model.save(tmp_path / "model"))
    assert np.array_equal(again.predict(X), model.predict(X))


PUBLIC = [(X[:5], ["a"] * 5), (X[:5], [0, 1, 2, 0, 1]), (X[:5], [0, 1, None, 0, 1]), (X[:5, :2], Y[:5]), (X[:5], Y[:4])]


@pytest.mark.parametrize("public", PUBLIC, ids=range(len(PUBLIC)))
def test_public_rows(public, tmp_path):
    with pytest.raises(ValueError, match=r"public_validation|features"):
        DPMACClassifier(epsilon=5, epochs=2, ledger=tmp_path / "book").fit(X, Y, public_validation=public)
    assert spent(tmp_path / "book") == 0


def test_public_labels_of_another_type_are_the_same_labels():
    found = []
    for labels in (Y, Y.astype(str), Y.astype(float), Y.astype(bool)):
        model = DPMACClassifier(epsilon=5, epochs=2, random_state=0, ledger=Ledger())
        model.fit(X, Y, public_validation=(X, labels))
        found.append(model.history_[-1].metrics["validation_accuracy"])
    assert len(set(found)) == 1
    assert found[0] > 0.0


def test_rows_with_a_hole(tmp_path):
    for fit in (
        lambda: DPMACClassifier(epsilon=5, ledger=tmp_path / "book").fit(NAN, Y),
        lambda: DPMACAutoencoder(epsilon=5, ledger=tmp_path / "book").fit(NAN),
    ):
        with pytest.raises(ValueError, match="NaN"):
            fit()
    assert spent(tmp_path / "book") == 0


@pytest.mark.parametrize("threshold", [1e-29, 1e29])
def test_thresholds_at_the_ends_of_what_is_allowed_come_to_a_model(threshold, tmp_path):
    model = DPMACClassifier(epsilon=5, epochs=2, bound=PerLayerClip(threshold)).fit(X, Y)
    again = dpmac.load(model.save(tmp_path / "model"))
    assert np.isfinite(again.predict_proba(X)).all()


# --- what no file of a model could keep -------------------------------------------------------------------------------


class Named(nn.Module):
    """Takes inputs of any name, and a text."""

    def __init__(self, text=None):
        super().__init__()
        self.last = nn.Linear(3, 2)

    def forward(self, *one, **named):
        return self.last(next(iter((*one, *named.values()))))


class Extra(Named):
    def get_extra_state(self):
        return {"steps": 1}

    def set_extra_state(self, state):
        pass


class OwnMap(FeatureMap):
    """A feature map of the user's own, without arguments()."""

    kind = "own"

    def forward(self, rows):
        return rows.double()

    def shape_after(self, shape):
        return shape


class Odd(OwnMap):
    def arguments(self):
        return {"formula": abs}


LONG, HALF = "x" * 70_000, "\udc80"
UNKEPT = [
    ({"module": Extra}, X, "_extra_state"),
    ({"module__text": LONG}, X, "^module__text=.*70,000 characters"),
    ({"module__text": ["a", {"b": HALF}]}, X, "^module__text=.*UTF-8"),
    ({"public_start": LONG}, X, "70,000 characters"),
    ({"public_start": HALF}, X, "UTF-8"),
    ({}, {LONG: X.astype(np.float32)}, "^X=.*70,000 characters"),
    ({}, {HALF: X.astype(np.float32)}, "^X=.*UTF-8"),
]


@pytest.mark.parametrize(
    ("arguments", "rows", "message"), UNKEPT, ids=[case[2] + str(n) for n, case in enumerate(UNKEPT)]
)
def test_of_modules(arguments, rows, message):
    ledger = Ledger()
    model = DPMACModuleClassifier(**{"module": Named, "epsilon": 2.0, "delta": 1e-3, "epochs": 1, **arguments})
    with pytest.raises(ArgumentError, match=message):
        model.set_params(ledger=ledger).fit(rows, Y)
    assert len(ledger) == 0


@pytest.mark.parametrize("kind", [OwnMap, Odd])
def test_of_feature_maps(kind):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=rf"^feature_map='{kind.__name__}': no file can keep it"):
        DPMACClassifier(feature_map=kind(), ledger=ledger, feature_range=(-1, 1)).fit(X, Y)
    assert len(ledger) == 0


class Said(Prior):
    kind = "said"

    def __init__(self, text):
        self.text = text

    def drawn(self, rows):
        return torch.linspace(0, 1, 3 * rows).reshape(rows, 3)

    def described(self):
        return self.text

    def arguments(self):
        return {"text": self.text}

    @classmethod
    def sample(cls):
        return cls("made up")


@pytest.mark.parametrize(("text", "message"), [(LONG, "70,0.. characters"), (HALF, "UTF-8")], ids=["long", "half"])
def test_of_words(text, message):
    for make in (
        lambda: FrozenModule(nn.Linear(3, 2), text),
        lambda: PublicRows(X, text),
        lambda: whitened(FrozenModule(nn.Linear(3, 2), "nothing"), Said(text), WhiteningOptions(rows=20)),
    ):
        with pytest.raises(ArgumentError, match=message):
            make()
    with pytest.raises(ArgumentError, match="'_extra_state' of its state is no tensor"):
        FrozenModule(Extra(), "nothing")
