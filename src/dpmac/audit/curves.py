"""What a claim allows an attacker, and how strong a mechanism must be to explain what an attacker has reached.

A claim is what the ledger says: Gaussian mechanisms of known multipliers, each on a Poisson sample of known rate. It
bounds the true positives of every test by a curve of its false positives (a trade-off curve). For the row that is there
or blank the curve is exact in two cases, z = Phi^-1(1 - a):

- on all rows: b <= Phi(mu - z), with mu^2 the sum of all 1 / sigma^2;
- one release on a sample of rate q: b <= (1 - q) a + q Phi(1 / sigma - z). Without the row the release is N(0, 1), with
  it the mixture (1 - q) N(0, 1) + q N(1 / sigma, 1), whose likelihood ratio rises: these are the best tests there are.

Anything else is composed as dp-accounting does it, and of all its pairs (epsilon, delta) the least bound is taken:
b <= e^epsilon a + delta and 1 - a <= e^epsilon (1 - b) + delta. That is an upper bound, so nobody is accused wrongly.

*Strength.* Mechanisms that are s times as strong have noise multipliers s times smaller. The lower bound that an audit
gives is the largest s whose curve still lies below the corner of its confidence box: nothing weaker explains what was
seen. If s is above 1, the claim is broken, and no assumption on the law of what was released went into that. If it is
not, s is put into words as an epsilon: that of the same mechanisms at s times their strength, as in Nasr et al. (2023),
"Tight auditing of differentially private machine learning".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri

from dpmac.audit.confidence import Corner
from dpmac.checks import ArgumentError
from dpmac.kernels.loss_distributions import MEDIUM, composed
from dpmac.privacy.accounting import MIN_MULTIPLIER, Mechanism, epsilon_of

MOST = 16.0  # strengths are sought up to it, where there is no closed form
HALVINGS = 14
EPSILONS = np.concatenate([np.linspace(0.0, 4.0, 161), np.linspace(4.05, 30.0, 160)])  # pairs of a composed claim

Claim = tuple[Mechanism, ...]


def true_positives(claim: Claim, false_positives: float) -> float:
    """The most true positives that ``claim`` allows at so many false ones."""
    a = false_positives
    spare = math.fsum(m.count * m.overflow for m in claim)  # samples beyond their padding: accounting.with_overflow
    found = min(1.0, _without_spare(claim, a) + spare)
    return max(found, a)  # who says "there" at random has as many of either


def _without_spare(claim: Claim, a: float) -> float:
    kind = _sampled(claim)
    if a >= 1.0:
        return 1.0
    if kind is None:
        return float(np.min(_lines(claim, a)))
    rate, mu = kind
    return float((1.0 - rate) * a + rate * ndtr(mu + ndtri(a)))


def strength(claim: Claim, corner: Corner) -> float:
    """The least strength, as a multiple of ``claim``'s, that explains ``corner``; infinite if none does."""
    a, b = corner.false_positives, corner.true_positives - math.fsum(m.count * m.overflow for m in claim)
    if not claim or any(m.noise_multiplier == 0 for m in claim):
        raise ArgumentError("claim", claim, "without noise nothing is claimed, and there is nothing to audit")
    if b <= a:
        return 0.0
    kind = _sampled(claim)
    if kind is None:
        return _searched(claim, a, b)
    rate, mu = kind
    part = (b - (1.0 - rate) * a) / rate  # of those that were sampled
    if part < 1.0:
        return max(0.0, float(ndtri(part) - ndtri(a)) / mu)
    return math.inf


def epsilon_at(claim: Claim, times: float, delta: float) -> float:
    """The epsilon at ``delta`` of mechanisms ``times`` as strong; 0 of none, and infinite where there is no noise."""
    if times <= 0.0:
        return 0.0
    if math.isinf(times) or min(m.noise_multiplier for m in claim) / times < MIN_MULTIPLIER:
        return math.inf
    return epsilon_of(_stronger(claim, times), delta)


def _sampled(claim: Claim) -> tuple[float, float] | None:
    """Rate and mu of a claim that has a curve in closed form."""
    if any(m.search is not None for m in claim):
        return None
    if all(m.sample_rate == 1.0 for m in claim):
        return 1.0, math.sqrt(math.fsum(m.count / m.noise_multiplier**2 for m in claim))
    if len(claim) == 1 and claim[0].count == 1:
        return claim[0].sample_rate, 1.0 / claim[0].noise_multiplier
    return None


def _stronger(claim: Sequence[Mechanism], times: float) -> Claim:
    return tuple(_louder(m, times) for m in claim)


def _louder(one: Mechanism, times: float) -> Mechanism:
    if one.search is None:
        return replace(one, noise_multiplier=one.noise_multiplier / times)
    cases = tuple(_stronger(case, times) for case in one.search.cases)
    stronger = replace(one.search, cases=cases)
    return replace(one, noise_multiplier=stronger.least_noise, search=stronger)


def _searched(claim: Claim, a: float, b: float) -> float:
    """By halving, from below: the strength returned does not explain the corner, but for a ten-thousandth."""
    low, high = 0.0, 1.0
    while high < MOST and true_positives(_stronger(claim, high), a) < b:
        low, high = high, 2 * high
    if high >= MOST:
        return MOST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if true_positives(_stronger(claim, middle), a) < b:
            low = middle
        else:
            high = middle
    return low


def _lines(claim: Claim, a: float) -> np.ndarray:
    """Every pair's bound on the true positives."""
    deltas = _deltas(tuple(replace(m, overflow=0.0, label="") for m in claim))
    bounds: np.ndarray = np.minimum(np.exp(EPSILONS) * a + deltas, 1.0 - np.exp(-EPSILONS) * (1.0 - a - deltas))
    return bounds


@functools.lru_cache(maxsize=64)
def _deltas(claim: Claim) -> np.ndarray:
    return np.asarray(composed(claim, MEDIUM).get_delta_for_epsilon(EPSILONS))
