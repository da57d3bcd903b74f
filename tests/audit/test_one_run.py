"""The bound for many canaries in one run: by its formula, and on randomised response, for which it is tight."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from dpmac.audit.findings import Effort
from dpmac.audit.one_run import ManyCanaries, chance, correct, proven


@pytest.mark.parametrize(("m", "r", "v"), [(20, 10, 8), (1000, 200, 195), (5, 5, 5), (50, 1, 1)])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_chance_is_the_theorems(m, r, v, epsilon, delta):
    p = 1 / (1 + math.exp(-epsilon))
    worst = max((binom.cdf(v - 1, r, p) - binom.cdf(v - i - 1, r, p)) / i for i in range(1, m + 1))
    assert chance(m, r, v, epsilon, delta) == pytest.approx(min(1.0, binom.sf(v - 1, r, p) + 2 * m * delta * worst))


def test_randomised_response_is_not_accused_and_is_nearly_reached():
    """Every coin is told truly with probability p, which is log(p / (1 - p))-private: the worst there is."""
    draw, epsilon, m, miss = np.random.default_rng(0), 2.0, 400, 0.05
    p = 1 / (1 + math.exp(-epsilon))
    found = [proven(m, m, int(draw.binomial(m, p)), 0.0, miss) for _ in range(150)]
    assert np.mean(np.array(found) > epsilon) <= miss + 0.05
    assert np.median(found) > 0.8 * epsilon


def test_guesses_are_of_the_highest_and_the_lowest():
    scores, coins = torch.tensor([0.1, 5.0, -3.0, 4.0]), torch.tensor([True, True, False, False])
    assert correct(scores, coins, 1) == 2
    assert correct(scores, coins, 2) == 2
    assert proven(4, 0, 0, 0.0, 0.05) == 0.0
    assert proven(100, 100, 50, 0.0, 0.05) == 0.0  # no better than chance


def test_one_run_of_a_correct_build_keeps_its_claim():
    (finding,) = ManyCanaries().judge(Effort("test", 40, 150), 1e-6)
    assert finding.attacker == "guesses"
    assert 0.0 <= finding.ratio <= 1.0
    assert finding.said_with + finding.said_without <= 150


def test_one_run_of_a_strong_leak_is_seen():
    """Without a hand on the door: a claim of far less is compared with what a run of little noise shows."""
    (finding,) = ManyCanaries(sigma=0.2).judge(Effort("test", 40, 150), 1e-6)
    assert finding.epsilon > 1.5
    assert finding.said_without <= 2
