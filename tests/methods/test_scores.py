"""Tallies of scores: what is summed is what a plain sum has, no row is longer than 1, and one entry pays for all."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.evaluation.classes import CELLS, SUMS, Classes
from dpmac.evaluation.numbers import SQUARES, Numbers
from dpmac.methods.residuals import mean_square
from dpmac.methods.scores import Scores, Tally, counts, means, numbers
from dpmac.privacy import Ledger, Mechanism, PrivateRows
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise, SystemNoise

N = 300
U = SeededNoise(1).normal((N, 2)).double() * 2
Y = torch.eye(2, dtype=torch.float64)[(torch.arange(N) % 3 == 0).long()]
GROUPS = {"ward": ("a", "b", "other")}


def softmax(u):
    return torch.softmax(u, dim=1)


def released(kind, u=U, y=Y, noise=0.0, ledger=None):
    if ledger is None:
        ledger = Ledger()
    source = SeededNoise(3) if noise else SystemNoise()
    return Scores(noise, kind.tallies()).fit(PrivateRows(u, y), torch.nn.Identity(), source, ledger)


def test_without_noise_the_sums_are_plain_sums():
    found = released(Classes(softmax, 2, 1, {}))
    p, y = softmax(U)[:, 1].numpy(), Y[:, 1].numpy()
    right, positive, brier, loss = means(found, SUMS)[0]
    assert right == pytest.approx(((p >= 0.5) == (y > 0)).mean(), abs=2 * SLACK)
    assert positive == pytest.approx(y.mean(), abs=2 * SLACK)
    assert brier == pytest.approx(((p - y) ** 2).mean(), abs=2 * SLACK)
    said = np.where(y > 0, p, 1 - p)
    assert loss * 5 == pytest.approx(np.minimum(-np.log(said), 5).mean(), abs=10 * SLACK)
    cells = found.sums[CELLS].reshape(2, -1)
    assert cells.sum(axis=1) == pytest.approx([(y == 0).sum(), y.sum()], rel=2 * SLACK)
    assert cells[:, 8:].sum() == pytest.approx((p >= 0.5).sum(), rel=2 * SLACK)


def test_errors_of_numbers_are_those_of_the_rows():
    u, y = U[:, :1] / 5, (U[:, 1:] / 5).clamp(-1, 1)
    found = released(Numbers(-1.0, 1.0, 0.3, {}), u, y)
    square = 4 * mean_square((found.sums[SQUARES] / N).tolist(), 0.0)
    assert square == pytest.approx(float((u.clamp(-1, 1) - y).square().mean()), rel=1e-3)


@pytest.mark.parametrize("extreme", [0.0, 1e9, -1e9, math.inf, math.nan])
def test_no_row_is_longer_than_one_whatever_the_model_says(extreme):
    u = torch.tensor([[extreme, 0.0], [0.0, extreme], [extreme, extreme], [-extreme, 1.0]], dtype=torch.float64)
    y = torch.eye(2, dtype=torch.float64).repeat(2, 1)
    codes = torch.tensor([[0.0], [1.0], [2.0], [0.0]], dtype=torch.float64)
    for kind, targets in ((Classes(softmax, 2, 1, GROUPS), torch.cat([y, codes], dim=1)), (_numbers(), codes - 1)):
        both = torch.cat([targets, codes], dim=1)
        for tally in kind.tallies():
            lengths = tally.of(u, both).norm(dim=1)
            assert (lengths.nan_to_num() <= 1 + 1e-12).all(), tally.name


def _numbers():
    return Numbers(-1.0, 1.0, 0.3, GROUPS)


def test_one_entry_pays_for_everything_and_noise_is_as_said():
    ledger = Ledger()
    kind = Classes(softmax, 2, 1, {})
    exact, noisy = released(kind), released(kind, noise=4.0, ledger=ledger)
    assert ledger.mechanisms() == (Mechanism(4.0, 1.0, 1, "scores"),)
    whole = sum(tally.share for tally in kind.tallies())
    for tally in kind.tallies():
        assert noisy.noise[tally.name] == pytest.approx(4.0 * math.sqrt(whole / tally.share))
    off = (noisy.sums[CELLS] - exact.sums[CELLS]) / noisy.noise[CELLS]
    assert 0.6 < off.std() < 1.5


def test_a_budget_is_met_by_the_release_alone():
    scores = Scores.for_budget(1.0, 1e-5, [counts("cells", 1.0, 2, lambda u, y: u[:, 0] > 0)])
    ledger = Ledger()
    ledger.append(_entry(scores.noise_multiplier))
    assert 0.999 < ledger.epsilon(1e-5) <= 1.0


def _entry(noise):
    from dpmac.privacy import Entry

    return Entry("scores", noise, 1.0)


def test_tallies_without_a_share_are_refused():
    for tallies in ((), (Tally("a", 1, 0.0, lambda u, y: u),)):
        with pytest.raises(ArgumentError, match="tallies"):
            Scores(1.0, tallies)


def test_numbers_beyond_their_ends_count_as_these():
    tally = numbers("sums", 1.0, [lambda u, y: 5 * u[:, 0], lambda u, y: u[:, 0] - 9])
    ones = torch.ones(2, 1, dtype=torch.float64)
    assert tally.of(ones, ones).tolist() == [[1 / math.sqrt(2), -1 / math.sqrt(2)]] * 2
