"""The residual's scale: the root of the mean square without noise, one release with it."""

from __future__ import annotations

import math

import pytest
import torch

from dpmac.bounds.clipping import joint_norms
from dpmac.checks import ArgumentError
from dpmac.methods import ResidualScale
from dpmac.privacy import Ledger, Mechanism, PrivateRows
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise

DRAW = SeededNoise(0)
Y = 2 * DRAW.uniform(500)[:, None] - 1
OUTPUTS = (Y + 0.2 * DRAW.normal((500, 1))).clamp(-1, 1)


def fit(sigma, outputs=OUTPUTS, y=Y, seed=0, ledger=None):
    book = Ledger() if ledger is None else ledger
    return ResidualScale(sigma).fit(PrivateRows(outputs, y), lambda x: x, SeededNoise(seed), book)


def test_without_noise_it_is_the_root_of_the_mean_square():
    wanted = float((OUTPUTS - Y).square().mean().sqrt())
    assert wanted > 0.15
    assert fit(0.0) == pytest.approx(wanted, rel=1e-9)
    assert fit(0.0, torch.ones(9, 1), -torch.ones(9, 1)) == pytest.approx(2.0, rel=2 * SLACK)  # as far as it can be


def test_targets_and_outputs_are_clipped_to_their_range():
    assert fit(0.0, 1e6 * OUTPUTS, 3 * Y) == pytest.approx(fit(0.0, OUTPUTS.sign(), (3 * Y).clamp(-1, 1)), rel=1e-9)


def test_it_is_at_least_a_thousandth():
    assert fit(0.0, Y, Y) == pytest.approx(1e-3)
    found = [fit(1e6, seed=seed) for seed in range(10)]  # noise that makes some of the sums negative
    assert min(found) == pytest.approx(1e-3)
    assert all(math.isfinite(value) for value in found)


def test_it_is_one_entry_of_the_ledger_and_its_noise_has_its_scale():
    ledger = Ledger()
    fit(5.0, ledger=ledger)
    assert ledger.mechanisms() == (ResidualScale(5.0).mechanism(),) == (Mechanism(5.0, 1.0, 1, "residual scale"),)
    assert ledger.entries[0].scales == {"squared residuals": 1.0}
    exact = fit(0.0)
    noise = torch.tensor([(fit(5.0, seed=seed) / 2) ** 2 - (exact / 2) ** 2 for seed in range(200)]) * 500
    above = noise[noise > 0]  # below, the floor of a thousandth may be met
    assert float(above.square().mean().sqrt()) == pytest.approx(5.0, rel=0.25)


def test_a_share_costs_that_part_of_one_gaussian_mechanism():
    whole, part = (ResidualScale.for_share(share, 2.0, 1e-5) for share in (1.0, 0.02))
    assert part.noise_multiplier**-2 == pytest.approx(0.02 * whole.noise_multiplier**-2)
    assert 1.99 < ledger_of(whole).epsilon(1e-5) <= 2.0


def ledger_of(scale):
    ledger = Ledger()
    fit(scale.noise_multiplier, ledger=ledger)
    return ledger


def test_shares_keep_their_promise_for_wild_outputs():
    wild = torch.tensor([math.inf, -math.inf, math.nan, 1e30, -1e30, 1.0, -1.0, 0.0], dtype=torch.float64)
    rows = torch.cartesian_prod(wild, wild)
    query = ResidualScale(1.0).query(lambda x: x)
    norms = joint_norms(query.parts(rows[:, :1], rows[:, 1:]), [p.scale for p in query.partitions])
    assert (norms <= 1 - SLACK / 2).all()
    assert float(norms.max()) > 0.999
    assert math.isfinite(fit(0.0, rows[:, :1], rows[:, 1:]))


def test_bad_arguments_are_named():
    with pytest.raises(ArgumentError, match=r"noise_multiplier=-1\.0"):
        ResidualScale(-1.0)
