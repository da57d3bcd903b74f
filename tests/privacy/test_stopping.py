"""Why a figure is for what was planned: stopping by what was released beats the epsilon so far (docs/proof.md)."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from dpmac.privacy import Mechanism, epsilon_of

RELEASES, SIGMA, DELTA, ABOVE = 14, 1.0, 1e-3, 0.3
PAGE = Path(__file__).parents[2] / "docs" / "proof.md"


def realised(epsilons: list[float], above: float) -> float:
    """The delta of a policy that stops as soon as the privacy loss is ``above`` the epsilon so far, at that epsilon.

    The loss of one release is N(mu^2 / 2, mu^2) with mu = 1 / sigma if the row is there. Its density among those who
    have not stopped yet is followed on a grid, release by release.
    """
    mu = 1.0 / SIGMA
    step = 0.01
    grid = np.arange(-30.0, 45.0, step)
    kernel = step * norm.pdf(np.arange(-8.0, 9.0 + step / 2, step), loc=mu**2 / 2, scale=mu)
    density, found = np.zeros_like(grid), 0.0
    density[np.abs(grid).argmin()] = 1.0 / step
    for count, epsilon in enumerate(epsilons, start=1):
        density = np.convolve(density, kernel)[800 : 800 + len(grid)]
        stops = grid >= epsilon + above if count < len(epsilons) else np.full(len(grid), True)
        gain = np.clip(1.0 - np.exp(epsilon - grid), 0.0, None)
        found += step * float((density * gain)[stops].sum())
        density = np.where(stops, 0.0, density)
    return found


def test_the_epsilon_so_far_is_beaten_by_stopping_as_the_page_says():
    epsilons = [epsilon_of([Mechanism(SIGMA, count=count)], DELTA) for count in range(1, RELEASES + 1)]
    delta = realised(epsilons, ABOVE)
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    said = re.search(r"epsilon is ([\d.]+) after the first and ([\d.]+) after the last", page)
    assert [float(number) for number in said.groups()] == [round(epsilons[0], 2), round(epsilons[-1], 2)]
    assert float(re.search(r"is stated: ([\d.]+) instead of 0\.001", page).group(1)) == pytest.approx(delta, abs=5e-5)
    assert delta > 4.5 * DELTA


def test_a_policy_that_never_stops_realises_the_delta_that_is_stated():
    """The same computation, as a check of it: without the policy the figure is what the accountant says."""
    epsilons = [epsilon_of([Mechanism(SIGMA, count=count)], DELTA) for count in range(1, RELEASES + 1)]
    assert realised(epsilons, math.inf) == pytest.approx(DELTA, rel=0.01)
