"""Objectives: whatever learns from rows asks by ``query`` and learns by ``apply``, and nothing else is known of it."""

from __future__ import annotations

import pytest
import torch

from dpmac.methods import DPPCA, Calibration, ClosedForm
from dpmac.methods.calibration import Rescaling
from dpmac.methods.closed_form import OutputLayer
from dpmac.methods.objective import learn_from_all_rows
from dpmac.methods.pca import SecondMoments
from dpmac.privacy import DensePart, Ledger, Partition, PrivateRows, Query
from dpmac.randomness import SeededNoise


class Total:
    """Learns the sum of all rows, clipped to [0, 1]."""

    def __init__(self):
        self.learned = []

    def query(self):
        return Query("total", (Partition("sum", (1,), 1.0),), lambda x: [DensePart(x.double().clamp(0, 0.99))])

    def apply(self, answer):
        self.learned.append(float(answer["sum"]))


def test_one_release_one_entry_one_answer():
    rows, ledger, total = torch.full((40, 1), 0.5), Ledger(), Total()
    learn_from_all_rows(total, PrivateRows(rows), noise_multiplier=0.25, source=SeededNoise(0), ledger=ledger)
    assert [(e.label, e.noise_multiplier, e.sample_rate) for e in ledger.entries] == [("total", 0.25, 1.0)]
    (found,) = total.learned
    assert found != 20.0
    assert found == pytest.approx(20.0, abs=2.0)  # eight standard deviations


def test_nothing_is_learned_from_a_release_that_is_refused():
    total = Total()
    total.query = lambda: Query("total", (Partition("sum", (1,), 1.0),), lambda x: [DensePart(2 * x.double())])
    ledger = Ledger()
    with pytest.raises(RuntimeError, match="exceeds the bound"):
        learn_from_all_rows(
            total, PrivateRows(torch.ones(4, 1)), noise_multiplier=1.0, source=SeededNoise(0), ledger=ledger
        )
    assert (total.learned, len(ledger)) == ([], 0)


def closed_form_layer():
    choices = ClosedForm(code=2, features=8)
    model = choices.fit(SeededNoise(3).normal((50, 4)), 0.0, SeededNoise(1), Ledger())
    return OutputLayer(model, 50, SeededNoise(2)), lambda made: made.weights


def moments():
    method = DPPCA(2, 0.0)
    table = PrivateRows(SeededNoise(3).normal((50, 4)))
    return SecondMoments(method, method._ball(table)), lambda made: made.released


def rescaling():
    u = SeededNoise(3).normal((50, 2))
    table = PrivateRows(u, torch.nn.functional.one_hot((u[:, 1] > 0).long(), 2).double())
    made = Rescaling.started(Calibration(0.0), lambda x: x, table, False, None, None)
    return made, lambda found: found.theta


@pytest.mark.parametrize("make", [closed_form_layer, moments, rescaling])
def test_what_is_learned_follows_from_the_answer_alone(make):
    """The same answer teaches the same, and another one something else."""
    learned = []
    for seed in (0, 0, 1):
        objective, read = make()
        sizes = {p.name: p.shape for p in objective.query().partitions}
        draw = SeededNoise(seed)
        objective.apply({name: draw.normal(shape) for name, shape in sizes.items()})
        learned.append(read(objective))
    assert torch.equal(learned[0], learned[1])
    assert not torch.equal(learned[0], learned[2])
