"""A module that keeps its rows, or needs them all, is refused before anything is spent, in whichever mode it does."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dpmac import DPMACClassifier, DPMACModuleClassifier, DPMACModuleRegressor, Ledger
from dpmac.checks import ArgumentError
from dpmac.mac import FixedPrediction
from dpmac.modules import FrozenModule
from dpmac.nets import ACTIVATIONS, Dense, Network, loss
from dpmac.nets.feature_maps import FeatureMap
from dpmac.privacy import JointClip, Plan
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer

X = SeededNoise(0).normal((80, 4)).float().numpy()
Y = (X[:, 0] > 0).astype(int)
QUICK = {"epsilon": 12.0, "delta": 1e-3, "epochs": 1, "batch_size": 40}


class Keeping(nn.Module):
    """A linear layer whose forward pass does ``more`` with itself and its rows."""

    def __init__(self, more=None, outputs=2):
        super().__init__()
        self.last, self.more = nn.Linear(4, outputs), more
        self.kept, self.late = [], {"x": deque(maxlen=1)}
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, rows):
        if self.more is not None:
            rows = self.more(self, rows)
        return self.last(rows)


def in_attribute(self, rows):
    self.inputs = rows.detach()
    return rows


def in_list(self, rows):
    self.kept.append(rows.detach().numpy())
    return rows


def deep_down(self, rows):
    self.late["x"].append((rows.detach().mean(dim=0),))
    return rows


def in_layer(self, rows):
    self.last.seen = rows.detach()
    return rows


KEPT = {in_attribute: "inputs", in_list: "kept", deep_down: "late", in_layer: "last.seen"}


def refused(model, match, y=Y):
    """A fit that is refused before it spends."""
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=match):
        model.set_params(ledger=ledger).fit(X, y)
    assert len(ledger) == 0


@pytest.mark.parametrize("more", KEPT, ids=lambda more: more.__name__)
def test_rows_that_stay_in_a_module_are_noticed(more):
    refused(
        DPMACModuleClassifier(Keeping(more), **QUICK, classes=(0, 1)), rf"^{KEPT[more]}=.*keeps something of its rows"
    )
    with pytest.raises(ArgumentError, match=rf"^{KEPT[more]}=.*keeps something of its rows"):
        FrozenModule(Keeping(more), "nothing").shape_after((4,))


def from_shapes(self, rows):
    """What follows from shapes alone may stay."""
    self.ones, self.places = torch.ones(len(rows), 1), torch.arange(rows.shape[1])
    return rows * self.ones


def test_what_follows_from_shapes_may_stay():
    model = DPMACModuleClassifier(Keeping(from_shapes), **QUICK, classes=(0, 1)).fit(X, Y)
    assert len(model.predict(X)) == len(X)


def late(more):
    """Only in evaluation mode: after the training, in a release of its own."""

    def unless_training(self, rows):
        return rows if self.training else more(self, rows)

    return unless_training


def raises(self, rows):
    raise RuntimeError("no cache")


def mixes(self, rows):
    return rows - rows.mean(dim=0)


def in_buffer(self, rows):
    self.mean.copy_(rows.mean(dim=0))
    return rows


def widens(self, rows):
    return torch.cat([rows, rows])[:, :, None]


LATE = {
    raises: "evaluation mode.*raised RuntimeError.*no cache",
    mixes: "evaluation mode.*influence each other",
    in_buffer: "^mean='a buffer'",
    in_list: "^kept=.*keeps something of its rows",
    widens: "evaluation mode",
}


@pytest.mark.parametrize("more", LATE, ids=lambda more: more.__name__)
def test_evaluation_mode_is_tried_before_the_training_is_paid_for(more):
    refused(DPMACModuleClassifier(Keeping(late(more)), **QUICK, classes=(0, 1)), LATE[more])
    regressor = DPMACModuleRegressor(Keeping(late(more), 1), **QUICK, target_range=(-3, 3))
    refused(regressor, LATE[more], X[:, 0])


@pytest.mark.parametrize(("how", "match"), [("raises", "raised RuntimeError"), ("mixes", "influence each other")])
def test_an_activations_module_is_tried_before_the_training_is_paid_for(how, match):
    class Wrong(nn.Module):
        def forward(self, u):
            if how == "raises":
                raise RuntimeError("not written yet")
            return torch.tanh(u - u.mean(dim=0))

    own = replace(ACTIVATIONS["tanh"], name="own", module=Wrong)
    model = DPMACClassifier((3,), activation=own, feature_range=(-3, 3), classes=(0, 1), **QUICK)
    refused(model, rf"^activation=Activation\(own\).*{match}")
    fine = model.set_params(activation=replace(ACTIVATIONS["tanh"], name="own"), ledger=None).fit(X, Y)
    assert np.isfinite(fine.predict_proba(X)).all()


class OwnMap(FeatureMap):
    """A feature map of the user's own that keeps what it saw ``where``."""

    kind = "own"

    def __init__(self, where):
        super().__init__()
        self.where = where
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, rows):
        if self.where == "inputs":
            self.inputs = rows
        if self.where == "mean":
            self.mean.copy_(rows.mean(dim=0))
        return rows.double()

    def shape_after(self, shape):
        return shape

    def arguments(self):
        return {"where": self.where}


class OwnLayer(Dense):
    def forward(self, inputs):
        self.inputs = inputs.clone()
        return super().forward(inputs)


@pytest.mark.parametrize("where", ["inputs", "mean"])
@pytest.mark.parametrize("kind", ["stack", "module"])
def test_a_feature_map_of_ones_own_keeps_nothing(where, kind):
    plan = Plan.for_budget(epsilon=12.0, delta=1e-3, n=80, batch_size=40, steps=1)
    network, way, y = Network([Dense(4, 2)], input_shape=[4], source=SeededNoise(0)), loss("softmax"), torch.eye(2)[Y]
    if kind == "module":
        network, way, y = nn.Linear(4, 2), nn.CrossEntropyLoss(reduction="none"), torch.from_numpy(Y)
    ledger = Ledger()
    trainer = Trainer.dp_sgd(network, way, plan, JointClip(1.0), feature_map=OwnMap(where))
    with pytest.raises(ArgumentError, match=rf"^{where}=.*keeps something of its rows"):
        trainer.fit(torch.from_numpy(X), y, ledger)
    assert len(ledger) == 0
    fine = Trainer.dp_sgd(network, way, plan, JointClip(1.0), feature_map=OwnMap("")).fit(torch.from_numpy(X), y)
    assert len(fine.ledger) == 1


def test_a_layer_of_ones_own_keeps_nothing():
    plan = Plan.for_budget(epsilon=12.0, delta=1e-3, n=80, batch_size=40, steps=1)
    network = Network([OwnLayer(4, 2)], input_shape=[4], source=SeededNoise(0))
    trainer = Trainer(network, loss("softmax"), plan, zstep=FixedPrediction(), bound=JointClip(1.0))
    with pytest.raises(ArgumentError, match=r"^0.inputs=.*keeps something of its rows"):
        trainer.fit(torch.from_numpy(X), torch.eye(2)[Y])
