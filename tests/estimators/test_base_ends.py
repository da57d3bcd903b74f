"""The end of a fit: what is released after the training, where a run stands, and predictions that are known again."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from test_base_checks import AFTER, Model, X, model

from dpmac import Machine
from dpmac.estimators import base
from dpmac.extensions import outputs
from dpmac.privacy import Entry, Ledger, Origin
from dpmac.training import Run
from dpmac.training.checkpoint import Checkpoints
from talking import Talking, talk


class Releasing(Model):
    """One release after the training, which has a checkpoint by then."""

    def fit(self, X):
        super().fit(X, after=AFTER)
        self.there = Checkpoints.at(self.machine.checkpoint).path.exists()
        with self._post_training("residuals") as after:
            after.ledger.append(Entry("residuals", 20.0, 1.0))
        return self


def test_what_is_released_after_the_training_is_of_the_same_run_and_then_the_fit_has_ended(tmp_path):
    """Else a fit that is resumed would not find what it has paid for, and pay again."""
    where = Checkpoints(tmp_path / "c", every=0.0)
    given = {"machine": Machine(checkpoint=where), "ledger": tmp_path / "book", "epochs": 2}
    fitted = Releasing(**model(**given).get_params(deep=False)).fit(X)
    entries = Ledger.read(tmp_path / "book").entries
    assert [entry.label for entry in entries] == ["training step", "training step", "residuals"]
    assert len({entry.run for entry in entries}) == 1
    assert fitted.there
    assert not where.path.exists()
    assert not hasattr(fitted, "_after")
    assert not hasattr(fitted, "_made_of")
    assert fitted.network_.origin == Origin.of(fitted.run_.ledger)


def test_where_a_run_stands_is_asked_in_its_own_world(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(base.PostTraining, "of", lambda *_, **more: asked.append(more["world"]))
    monkeypatch.setattr(Talking, "everywhere", lambda _, work: work(), raising=False)
    monkeypatch.setattr(base.Trainer, "fit", lambda trainer, *_, ledger, **__: ended(trainer, ledger))

    def ended(trainer, ledger):
        return Run(trainer.network, [], ledger, trainer.plan, (), trainer.feature_map)

    def work(world):
        model(machine=Machine(world=world)).fit(X)
        return world

    (one,) = talk(1, work)
    assert asked == [one.value]


def test_predictions_are_known_again(monkeypatch):
    ledger, fitted = Ledger(), model()
    ledger.append(Entry("training step", 8.0, 1.0))
    fitted.network_ = SimpleNamespace(origin=Origin.of(ledger))
    monkeypatch.setattr(outputs, "_remembered", [])
    assert np.array_equal(fitted._handed_out(X[:, 0]), X[:, 0])
    assert outputs.maker_of(X[:, :1]) == Origin.of(ledger)
