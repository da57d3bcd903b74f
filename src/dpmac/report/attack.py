"""What someone who sees the model can learn of one row, at most: a bound that follows from the ledger alone.

The attacker knows every other row, the method and all public numbers, sees everything that was released, and has to
say whether one row is there or blank. The accountant gives pairs (epsilon_i, delta_i), each of which holds of the
whole ledger, whichever of the two tables is the true one. From each pair:

*True against false positives.* Let the attacker say "there" on a set S of outcomes, P the law of the outcome if the row
is there and Q if it is blank; a = Q(S) is the part of false positives and b = P(S) of true ones. Differential
privacy says b <= e^epsilon a + delta, and of the complement of S, with the two tables exchanged, 1 - a <= e^epsilon
(1 - b) + delta, that is b <= 1 - e^-epsilon (1 - a - delta). A randomised rule is a mixture of sets, and both bounds
are linear in a and b. As every pair holds, so does the least of all their bounds: the curve lies on or above what any
attacker can reach.

*Posterior odds.* By Bayes' rule they are the prior odds times e^L, with L the log of P's density over Q's at the
outcome. Of A = {L > t}: P(A) <= e^epsilon Q(A) + delta <= e^(epsilon - t) P(A) + delta, so that
P(A) <= delta / (1 - e^(epsilon - t)) for every epsilon < t, and Q(A) is smaller still. So with a pair whose delta_i is
below a chance c, L stays within t = epsilon_i - log(1 - delta_i / c) but for a chance of c; and so does -L, as the two
tables may be exchanged. That t is a little more than the epsilon at delta = c: one pair (epsilon, delta) by itself says
nothing of odds that fail with a chance of delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpmac.checks import ArgumentError, number
from dpmac.privacy.accounting import MIN_DELTA, Mechanism, epsilon_of

LADDER = (
    *(1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.27, 0.35, 0.45, 0.55, 0.65),
    *(0.75, 0.85, 0.92, 0.97, 0.99),
)  # deltas that the accountant is asked at, until an epsilon of 0 is enough
PARTS = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the ledger's own delta: what posterior odds are made of
HALVINGS = 4  # of the step of the ladder within which epsilon comes to 0


@dataclass(frozen=True)
class Attack:
    """Pairs (epsilon, delta) that all hold of one ledger; see the module's text for what follows from them."""

    pairs: tuple[tuple[float, float], ...]

    def true_positives(self, false_positives: float) -> float:
        """The largest part of rows that are there which a test can find, if it is wrong of so many that are blank."""
        a = number("false_positives", false_positives, "give a part from 0 to 1", low=0.0, high=1.0)
        bound = 1.0
        for epsilon, delta in self.pairs:
            bound = min(bound, _times_e(a, epsilon) + delta, 1.0 - math.exp(-epsilon) * (1.0 - a - delta))
        return max(bound, a)  # who says "there" at random has as many of either

    def advantage(self) -> float:
        """The largest difference of true and false positives: 0 means that nothing can be learned.

        That of two laws is their total variation, the least delta at which an epsilon of 0 holds; where no pair has
        just that epsilon, one with another gives b - a <= (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
        """
        bounds = (math.tanh(epsilon / 2) + 2 * delta / (1 + _times_e(1.0, epsilon)) for epsilon, delta in self.pairs)
        return min((1.0, *bounds))

    def corners(self) -> list[tuple[float, float]]:
        """Points (false, true positives) enough to draw the curve: it is straight, or nearly so, between them."""
        fine = [10.0 ** (-6 + k / 8) for k in range(41)]
        places = sorted({0.0, 1.0, *fine, *(k / 100 for k in range(1, 100))})
        return [(a, self.true_positives(a)) for a in places]

    def log_odds(self, chance: float) -> float:
        """How far a row's log-odds can move, either way, but for a ``chance``; infinite if no pair says."""
        c = number("chance", chance, "give a chance above 0 and below 1", low=0.0, high=1.0, strict=True)
        return min((e - math.log1p(-d / c) for e, d in self.pairs if d < c), default=math.inf)

    def posterior(self, prior: float, chance: float) -> tuple[float, float]:
        """How little and how sure someone can become who thought ``prior``, each but for a ``chance``."""
        p = number("prior", prior, "give a probability above 0 and below 1", low=0.0, high=1.0, strict=True)
        t, odds = self.log_odds(chance), math.log(p) - math.log1p(-p)
        return _logistic(odds - t), _logistic(odds + t)


def attack_on(mechanisms: Sequence[Mechanism], delta: float) -> Attack | None:
    """The bounds that hold of ``mechanisms``, with some about ``delta``; None if one of them is without noise.

    About thirty questions to the accountant, a tenth of a second each (less if all rows were used every time).
    """
    d = number("delta", delta, "give a number above 0 and below 1", low=0.0, high=1.0, strict=True)
    if any(m.noise_multiplier == 0 and m.count for m in mechanisms):
        return None
    near = {max(part * d, MIN_DELTA) for part in PARTS}
    pairs = [(epsilon_of(mechanisms, small), small) for small in sorted(near)]
    if not all(math.isfinite(epsilon) for epsilon, _ in pairs):
        raise ArgumentError("delta", delta, "the accountant has no finite epsilon there: give a larger one")
    below = max(near)
    for above in (step for step in LADDER if step > below):
        epsilon = epsilon_of(mechanisms, above)
        pairs.append((epsilon, above))
        if epsilon == 0:
            pairs += _least_without(mechanisms, below, above)
            break
        below = above
    return Attack(tuple(pairs))


def _least_without(mechanisms: Sequence[Mechanism], below: float, above: float) -> list[tuple[float, float]]:
    """Pairs about the least delta at which an epsilon of 0 holds, which lies between the two."""
    found = []
    for _ in range(HALVINGS):
        middle = (below + above) / 2
        epsilon = epsilon_of(mechanisms, middle)
        found.append((epsilon, middle))
        if epsilon > 0:
            below = middle
        else:
            above = middle
    return found


def _times_e(value: float, exponent: float) -> float:
    """value * e^exponent, infinite where that is too large for a number."""
    if exponent < 700:
        return value * math.exp(exponent)
    if value == 0:
        return 0.0
    return math.inf


def _logistic(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(max(x, -745.0)) / (1 + math.exp(max(x, -745.0)))
