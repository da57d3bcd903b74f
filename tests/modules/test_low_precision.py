"""Modules whose products are rounded to bfloat16: rows' gradients are near the exact ones, and kept as before."""

from __future__ import annotations

import copy

import pytest
import torch
from test_training_modules import table, trainer_of, weights
from zoo import zoo

from dpmac.extensions.row_independence import fault_of, trials
from dpmac.modules import Task, settled
from dpmac.modules.step import ModuleStep
from dpmac.privacy import JointClip, Ledger, PrivateRows, release
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

ROWS = 9
NAMES = list(zoo())[::3]
SOME = ["residual", "LSTM", "transformer", "masked attention", "own parameters", "tied words"]
pytestmark = pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # torch's, of RMS norms


def both(name):
    one = copy.deepcopy(zoo()[name])
    one.module.float()
    columns = tuple(c.float() if c.dtype.is_floating_point else c for c in one.rows(ROWS, 5))
    exact = Task(one.module, one.loss, one.names)
    low = Task(one.module, one.loss, one.names, autocast=torch.bfloat16)
    kinds = tuple(column[:1] for column in columns)
    return [settled(task, kinds, SeededNoise(3)) for task in (exact, low)], columns


@pytest.mark.parametrize("name", sorted({*NAMES, *SOME}))
def test_gradients_are_near_the_exact_ones_and_in_single_precision(name):
    (exact, low), columns = both(name)
    with torch.no_grad():
        pairs = list(zip(exact.parts(*columns), low.parts(*columns), strict=True))
    assert all(part.single for _, part in pairs)
    one, other = (torch.cat([pair[k].explicit().flatten(1) for pair in pairs], dim=1) for k in (0, 1))
    cosine = torch.nn.functional.cosine_similarity(one, other)
    assert float(cosine.median()) > 0.98
    assert not torch.equal(one, other)


@pytest.mark.parametrize("name", SOME)
def test_a_release_bounds_what_it_sums(name):
    """Without noise: the sum over all rows is that of the parts as they were measured, none longer than its bound."""
    (_, low), columns = both(name)
    step = ModuleStep(low, JointClip(1e-3))
    with torch.no_grad():
        parts = step.bounded(*columns)
    assert float(sum(part.norms() ** 2 for part in parts).max()) <= (1e-3 * (1 - SLACK)) ** 2 * (1 + 1e-9)
    asked = {"noise_multiplier": 0.0, "source": SeededNoise(1), "ledger": Ledger()}
    answer = release(PrivateRows(*columns).everything(), step.query(), **asked)
    whole = {name: part.explicit().sum(dim=0) for name, part in zip(answer, parts, strict=True)}
    for key, sums in answer.items():
        torch.testing.assert_close(sums, whole[key].reshape(sums.shape), rtol=0, atol=0.01 * ROWS * 1e-3)


@pytest.mark.parametrize("name", SOME)
def test_rows_are_alone(name):
    (_, low), columns = both(name)
    blank = tuple(column.new_zeros(32, *column.shape[1:]) for column in columns)
    with torch.no_grad():
        assert fault_of(low.parts, trials(blank, tokens=True, source=SeededNoise(1))) is None


def test_a_training_uses_it_and_learns_much_the_same():
    trained = []
    for more in ({}, {"autocast": torch.bfloat16}, {"autocast": torch.bfloat16}):
        trainer, sample = trainer_of("residual", sigma=0.5, **more)
        trained.append(weights(trainer.fit(*table(sample))))
    assert torch.equal(trained[1], trained[2])
    assert not torch.equal(trained[0], trained[1])
    start = weights(type("Run", (), {"model": zoo()["residual"].module}))
    assert torch.nn.functional.cosine_similarity(trained[0] - start, trained[1] - start, dim=0) > 0.9


def test_what_cannot_be_is_said_before_anything_is_spent():
    trainer, sample = trainer_of("residual", autocast=torch.float16)
    with pytest.raises(ValueError, match=r"autocast=torch.float16: give torch.bfloat16"):
        trainer.fit(*table(sample))
