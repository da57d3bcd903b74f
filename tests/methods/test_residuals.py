"""The residual's scale: the root of the mean square without noise, one release with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from dpmac.bounds.clipping import joint_norms
from dpmac.checks import ArgumentError
from dpmac.methods import ResidualScale
from dpmac.methods.residuals import SHELLS, mean_square
from dpmac.privacy import Ledger, Mechanism, PrivateRows, release
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


def test_it_is_at_least_a_thousandth_and_at_most_the_range_whatever_the_noise():
    assert fit(0.0, Y, Y) == pytest.approx(1e-3)
    found = [fit(sigma, seed=seed) for seed in range(10) for sigma in (10.0, 1e3, 1e9)]
    assert all(1e-3 <= value <= 2.0 for value in found)


def test_it_is_one_entry_of_the_ledger_and_its_noise_has_its_scale():
    ledger = Ledger()
    fit(5.0, ledger=ledger)
    assert ledger.mechanisms() == (ResidualScale(5.0).mechanism(),) == (Mechanism(5.0, 1.0, 1, "residual scale"),)
    assert ledger.entries[0].scales == {"squared residuals": 1.0}
    noise = torch.stack([released(5.0, seed) - released(0.0, 0) for seed in range(40)])
    assert float(noise.square().mean().sqrt()) == pytest.approx(5.0, rel=0.1)


def released(sigma, seed):
    query = ResidualScale(sigma).query(lambda x: x)
    rows = PrivateRows(OUTPUTS, Y).everything()
    return release(rows, query, noise_multiplier=sigma, source=SeededNoise(seed), ledger=Ledger())["squared residuals"]


def test_every_row_is_in_one_shell_with_its_square_over_the_largest_of_that_shell():
    """By hand: a residual of .3 of the range is in the shell from .25 to .5, and counts (.3 / .5)^2 there."""
    off = torch.tensor([[1.0], [0.6], [0.5], [0.3], [0.25], [0.001], [0.0001], [0.0]], dtype=torch.float64)
    (part,) = ResidualScale(1.0).query(lambda x: x).parts(2 * off - 1, torch.full((8, 1), -1.0, dtype=torch.float64))
    wanted = torch.zeros(8, SHELLS, dtype=torch.float64)
    for row, (shell, value) in enumerate([(0, 1), (0, 0.36), (1, 1), (1, 0.36), (2, 1)]):
        wanted[row, shell] = value
    wanted[5, 9] = (0.001 * 2**9) ** 2
    wanted[6, 10] = (0.0001 * 2**10) ** 2
    assert torch.allclose(part.values, wanted, rtol=2 * SLACK, atol=1e-12)


LAWS = {
    "normal": lambda draw, n: draw.normal(size=n),
    "uniform": lambda draw, n: draw.uniform(-1, 1, n),
    "Laplace": lambda draw, n: draw.laplace(size=n),
    "exponential": lambda draw, n: draw.exponential(size=n) - 1,
    "t(5)": lambda draw, n: draw.standard_t(5, n),
}


@pytest.mark.parametrize("noise", [0.003, 0.006, 0.012])
@pytest.mark.parametrize("size", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("law", LAWS)
def test_it_is_within_a_fifth_of_the_truth_on_average_for_the_noise_that_estimators_have(law, size, noise):
    """Noise (over the rows) of n epsilon = 5,000, 2,000 and 1,000; without a prior on the law of the residuals.

    A single sum of squares, of the same noise, is off by a half and more at .1 (its mean square is .0025 of the range).
    """
    draw = np.random.RandomState(0)
    many = LAWS[law](draw, 100_000)
    scale = size / np.sqrt(np.mean(many**2))
    true = np.sqrt(np.mean(np.minimum((scale * many / 2) ** 2, 1)))
    found = []
    for _ in range(60):
        square = np.minimum((scale * LAWS[law](draw, 1000) / 2) ** 2, 1)
        shell = np.minimum(np.floor(-np.log2(np.sqrt(square)) + 1e-12), SHELLS - 1).astype(int)
        sums = np.bincount(shell, square * 4.0**shell, SHELLS) / 1000 + noise * draw.normal(size=SHELLS)
        found.append(math.sqrt(mean_square(sums.tolist(), noise)) / true)
    assert np.mean(found) == pytest.approx(1.0, abs=0.2)
    assert np.std(found) < 0.6


@given(st.lists(st.floats(-1e300, 1e300), min_size=SHELLS, max_size=SHELLS), st.floats(0, 1e300))
@example([0.0] * SHELLS, 0.0)
@example([-1.0] * SHELLS, 0.0)
@example([1e-320] + [0.0] * (SHELLS - 1), 1e-320)
def test_of_any_released_numbers_the_square_is_a_number(sums, noise):
    assert 0 <= mean_square(sums, noise) < math.inf


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
