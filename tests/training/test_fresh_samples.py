"""Every step of a training has a sample of its own, and no number that leaves tells how large it was."""

from __future__ import annotations

import pytest
import torch

from conftest import make_problem
from dpmac.mac import FixedPrediction
from dpmac.privacy import (
    Batch,
    DensePart,
    JointClip,
    Ledger,
    Partition,
    Plan,
    PoissonSampler,
    PrivateRows,
    Query,
    release,
)
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Trainer


def drawn_by(trainer, table, monkeypatch):
    """The places that every release of a training draws, in order."""
    seen, exact = [], Batch.spend

    def watched(self, *arguments, **more):
        seen.append(tuple(self._places.tolist()))
        return exact(self, *arguments, **more)

    monkeypatch.setattr(Batch, "spend", watched)
    trainer.fit(table)
    return seen


@pytest.mark.parametrize("source", [SystemNoise(), SeededNoise(3)], ids=repr)
def test_every_step_draws_its_own_sample(source, monkeypatch):
    """The account is of fresh samples: a sample that is used again is not what amplification speaks of."""
    problem = make_problem(rows=80)
    trainer = Trainer(
        problem.network, problem.loss, Plan(80, 40, 8, 1.0, 1e-4), FixedPrediction(), JointClip(1.0), source=source
    )
    seen = drawn_by(trainer, PrivateRows(problem.x, problem.y), monkeypatch)
    assert len(seen) == len(set(seen)) == 8  # two equal ones by chance: once in 2**75


def test_a_second_fit_draws_other_samples(monkeypatch):
    problem = make_problem(rows=80)
    plan, table = Plan(80, 40, 3, 1.0, 1e-4), PrivateRows(problem.x, problem.y)
    trainer = Trainer(problem.network, problem.loss, plan, FixedPrediction(), JointClip(1.0))
    seen = [drawn_by(trainer, table, monkeypatch) for _ in range(2)]
    assert len({*seen[0], *seen[1]}) == 6


def test_a_sampled_sum_is_divided_by_the_constant_and_not_by_the_rows_that_were_drawn():
    """Without noise, of rows that are all 1: the sum is the number of rows drawn, and it must come out as that."""
    table = PrivateRows(torch.ones(50, 1, dtype=torch.float64))
    query = Query("count", (Partition("count", (1,), scale=2.0),), lambda x: [DensePart(x)])
    found = []
    for seed in range(6):
        sampler = PoissonSampler(50, 0.4, SeededNoise(seed))
        expected = len(PoissonSampler(50, 0.4, SeededNoise(seed)).draw())
        more = {"noise_multiplier": 0.0, "source": SeededNoise(0), "ledger": Ledger(), "divisor": 20.0}
        found.append(float(release(table.sample(sampler), query, **more)["count"]))
        assert found[-1] == pytest.approx(expected / 20.0)
    assert len(set(found)) > 2


def test_noise_on_a_sample_is_divided_by_the_constant_too():
    """Of two samples of very different size, the noise is the same number: that of the seed over the constant."""
    rows = torch.zeros(60, 1, dtype=torch.float64)
    query = Query("nothing", (Partition("nothing", (4,), scale=1.0),), lambda x: [DensePart(x.expand(-1, 4) * 0.0)])

    def noise(rate):
        batch = PrivateRows(rows).sample(PoissonSampler(60, rate, SeededNoise(1)))
        more = {"noise_multiplier": 1.0, "source": SeededNoise(2), "ledger": Ledger(), "divisor": 8.0}
        return release(batch, query, **more)["nothing"]

    assert torch.allclose(noise(0.1), noise(0.9), atol=1e-5)


def test_samples_are_empty_as_often_as_they_should_be():
    """Four rows at a rate of 0.1: (1 - 0.1)**4 of all samples hold none. To draw those again would be another law."""
    table, sampler = PrivateRows(torch.zeros(4, 1)), PoissonSampler(4, 0.1, SystemNoise())
    empty = sum(len(table.sample(sampler)._places) == 0 for _ in range(1000))
    assert abs(empty - 656) < 6 * 15.1  # six standard deviations


@pytest.mark.parametrize("source", [SystemNoise(), SeededNoise(5)], ids=repr)
def test_the_sizes_of_samples_vary_as_they_should(source):
    """Batches of one size are not what the account is of. The variance of 400 sizes has a standard error of 7 %."""
    table, sampler = PrivateRows(torch.zeros(200, 1)), PoissonSampler(200, 0.3, source)
    sizes = torch.tensor([float(len(table.sample(sampler)._places)) for _ in range(400)])
    assert float(sizes.var()) == pytest.approx(200 * 0.3 * 0.7, rel=0.42)
    assert float(sizes.mean()) == pytest.approx(60.0, abs=6 * 0.33)
